from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.keylog import KeyLog

RANDOM, OTHER = "ab" * 32, "cd" * 32
SECRET, LONG = "11" * 32, "22" * 48


def test_all_labels_of_a_session() -> None:
    """Each label fills its own field, upper or lower case hex, with line ends of either kind."""
    log = KeyLog()
    log.add(
        f"# made by a test\r\n\nCLIENT_HANDSHAKE_TRAFFIC_SECRET {RANDOM} {SECRET}\r\n"
        f"SERVER_HANDSHAKE_TRAFFIC_SECRET {RANDOM.upper()} {LONG}\n"
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM} {SECRET}\nSERVER_TRAFFIC_SECRET_0 {RANDOM} {LONG}\n"
        f"CLIENT_EARLY_TRAFFIC_SECRET {RANDOM} {SECRET}\nCLIENT_RANDOM {OTHER} {LONG}\n"
        f"EXPORTER_SECRET {RANDOM} {SECRET}".encode()
    )
    session, other = log.get(bytes.fromhex(RANDOM)), log.get(bytes.fromhex(OTHER))
    assert session is not None
    assert other is not None
    assert session.client_handshake == session.client_application == session.client_early == bytes.fromhex(SECRET)
    assert session.server_handshake == session.server_application == other.master == bytes.fromhex(LONG)
    assert (session.master, len(log), log.malformed) == (None, 2, 0)


def test_lines_that_are_none_are_counted() -> None:
    """Wrong lengths, other characters and other shapes are counted, and harm no line beside them."""
    log = KeyLog()
    lines = [
        f"CLIENT_RANDOM {RANDOM} {SECRET}",  # a master secret has 48 bytes
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM} {'33' * 31}",
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM[2:]} {SECRET}",
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM}  {SECRET}",
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM} {'zz' * 32}",
        "x" * 100_000,
        f"CLIENT_RANDOM {RANDOM} {LONG}",
    ]
    log.add("\n".join(lines).encode())
    assert (len(log), log.malformed) == (1, 6)


def test_the_oldest_session_leaves_first() -> None:
    """A log of any size fills no memory."""
    log = KeyLog(limit=3)
    for number in range(5):
        log.add(f"CLIENT_RANDOM {number:064x} {LONG}".encode())
    assert [log.get(number.to_bytes(32)) is not None for number in range(5)] == [False, False, True, True, True]


def test_secrets_are_in_no_repr() -> None:
    """Neither the log nor a session shows a secret when it is printed."""
    log = KeyLog()
    log.add(f"CLIENT_RANDOM {RANDOM} {LONG}".encode())
    secret = bytes.fromhex(LONG)
    shown = f"{log!r} {log.get(bytes.fromhex(RANDOM))!r}"
    assert LONG not in shown
    assert repr(secret)[2:-1] not in shown


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Bytes of any kind raise nothing."""
    KeyLog().add(data)
