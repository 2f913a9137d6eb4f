from __future__ import annotations

import pytest

from h3probe.wire.tls_hello import parse_client_hello
from tests.wire import hello_builder as build


@pytest.mark.parametrize(
    ("contents", "sni"),
    [
        (build.vector(2, b"\x01" + build.vector(2, b"other") + b"\x00" + build.vector(2, b"host")), "host"),
        (build.vector(2, b"\x01" + build.vector(2, b"other")), None),
        (build.vector(2, b"\x00" + build.vector(2, b"")), None),
        (build.vector(2, b"\x00" + build.vector(2, b"b\xfccher.example")), "b\\xfccher.example"),
    ],
)
def test_server_name_is_the_first_host_name(contents: bytes, sni: str | None) -> None:
    """Only an entry of type host_name with a name in it counts, and bytes outside ASCII are escaped."""
    assert parse_client_hello(build.client_hello([(0, contents)])).sni == sni


def test_alpn_that_is_no_text_is_kept_escaped_and_raw() -> None:
    """A protocol that is not UTF-8 is shown with escapes, and stays available as it was sent."""
    hello = parse_client_hello(build.client_hello([build.alpn(b"\xab\xcd", "h\u00fc".encode())]))
    assert hello.alpn == ("\\xab\\xcd", "h\u00fc")
    assert hello.alpn_raw == (b"\xab\xcd", b"h\xc3\xbc")
