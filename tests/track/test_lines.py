from __future__ import annotations

from h3probe.events import Endpoint
from tests.track.builders import SERVER, TcpWatch


def test_other_protocols_are_tracked_and_not_talked_about() -> None:
    """SSH and mail have nothing to do with HTTP: no lines for them."""
    watch = TcpWatch(server=Endpoint(SERVER.host, 22))
    watch.connect()
    watch.server(b"SSH-2.0-OpenSSH\r\n")
    assert (watch.said(), watch.outcome()) == ([], "established")
