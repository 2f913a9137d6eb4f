from __future__ import annotations

import asyncio

from h3probe.vantage.relay_samples import Samples
from tests.vantage.relay_frames import until
from tests.vantage.test_relay import run

SHORT, LONG = b"\x40", b"\xc0"
ENOUGH = 64


class Watch:
    """Samples of one flow, and what they told."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, int, bool]] = []
        self.samples = Samples(asyncio.get_running_loop(), lambda *telling: self.told.append(telling))

    def saw(self, *datagrams: bytes, at: int = 0, by_client: bool = True) -> list[bytes]:
        """Let datagrams pass; return what was told at once."""
        before = len(self.told)
        self.samples.saw(datagrams, at, by_client=by_client)
        return [payload for payload, _, _ in self.told[before:]]

    def establish(self) -> None:
        """Let so many short headers pass that not all are told any more."""
        for by_client in (True, False):
            assert self.saw(*[SHORT] * ENOUGH, by_client=by_client) == [SHORT] * ENOUGH


def test_all_until_both_have_sent_enough() -> None:
    """One side's short headers alone are all told, however many; with the other side's, no more."""

    async def body() -> None:
        watch = Watch()
        many = [SHORT] * 10 * ENOUGH
        assert watch.saw(*many) == many
        assert watch.saw(*[SHORT] * (ENOUGH - 1), by_client=False) == [SHORT] * (ENOUGH - 1)
        assert watch.saw(*many) == many
        assert watch.saw(SHORT, by_client=False) == [SHORT]
        assert watch.saw(*many, SHORT + b"last") == [SHORT + b"last"]
        watch.samples.close()

    run(body())


def test_latest_is_told_late_with_its_own_time() -> None:
    """Of what comes too early after another one the latest is told in the end, for each direction."""

    async def body() -> None:
        watch = Watch()
        watch.establish()
        for by_client in (True, False):
            assert watch.saw(SHORT + b"1", at=1, by_client=by_client) == [SHORT + b"1"]
        assert watch.saw(SHORT + b"2", SHORT + b"3", at=3, by_client=False) == []
        assert watch.saw(SHORT + b"4", at=4) == []
        assert watch.saw(SHORT + b"5", SHORT + b"6", at=5, by_client=False) == []
        count = len(watch.told)
        await until(lambda: len(watch.told) == count + 2)
        assert watch.told[-2:] == [(SHORT + b"4", 4, True), (SHORT + b"6", 5, False)]
        watch.samples.close()
        assert len(watch.told) == count + 2

    run(body())


def test_long_headers_are_always_told() -> None:
    """A long header is told at once, after what was held; and from then on everything is, as at the start."""

    async def body() -> None:
        watch = Watch()
        watch.establish()
        watch.saw(SHORT + b"1", at=1)
        assert watch.saw(SHORT + b"2", SHORT + b"3", LONG, SHORT + b"4", at=2) == [
            SHORT + b"3",
            LONG,
            SHORT + b"4",
        ]
        assert watch.saw(SHORT + b"5", SHORT + b"6", at=3) == [SHORT + b"5", SHORT + b"6"]
        watch.samples.close()

    run(body())


def test_what_is_not_quic_is_told() -> None:
    """Datagrams that are empty or have no fixed bit are all told."""

    async def body() -> None:
        watch = Watch()
        other = [b"", b"\x00", b"\x3f"] * ENOUGH
        for by_client in (True, False, True):
            assert watch.saw(*other, by_client=by_client) == other
        watch.samples.close()

    run(body())


def test_close_tells_the_rest() -> None:
    """What is held is told at the end, and no timer stays."""

    async def body() -> None:
        watch = Watch()
        watch.establish()
        watch.saw(SHORT + b"1", at=1)
        watch.saw(SHORT + b"2", at=2)
        watch.samples.close()
        assert watch.told[-1] == (SHORT + b"2", 2, True)
        assert watch.samples._client.timer is None
        assert watch.samples._server.timer is None

    run(body())
