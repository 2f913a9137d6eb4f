"""What tests of streams begin with, and the name that is found in one."""

from __future__ import annotations

from h3probe.redact import Mapping
from h3probe.wire.tls import handshake_messages, records
from h3probe.wire.tls_hello import parse_client_hello
from tests.redact.flows import KEY, NAME, hello
from tests.wire.hello_builder import record

NEW_NAME = Mapping(KEY).host(NAME).decode()
HELLO = record(22, hello(protocol=b"h2"))
CCS = record(20, b"\x01", 0x0303)
DATA = record(23, b"the user's own data" * 20, 0x0303)
CONNECT = b"CONNECT " + NAME + b":443 HTTP/1.1\r\nHost: " + NAME + b":443\r\n\r\n"


def sni(stream: bytes) -> str | None:
    """The name in the ClientHello that a stream begins with."""
    first = records(stream)[0][0]
    return parse_client_hello(handshake_messages(first.payload)[0][0][1]).sni
