"""Chromium: its NetLog beside the wire, its key log while it is watched, and what both tell of each request."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from h3probe.events import ToldAltSvc, ToldExchange
from h3probe.vantage.clientlog.file import ClientLogFile

from .browser import SET_UP, Browser
from .netns import Firewall, give_routes
from .parts import ADVERTISED, PROXY, Lab, RealParts
from .watching import H3PROBE, Watched

Record = dict[str, object]
pytestmark = pytest.mark.xdist_group("chromium")


@pytest.fixture
def browser(parts: RealParts, new_lab: Callable[[str], Lab], request: pytest.FixtureRequest) -> Browser:
    """Give a Chromium in a lab of this test's own."""
    if "chromium" not in parts.versions():
        pytest.skip(SET_UP)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:40].strip("-")
    return Browser(new_lab(name))


def told(folder: Path) -> tuple[list[ToldExchange], list[ToldAltSvc]]:
    """Give what the NetLog in a folder says of the lab's server."""
    events = [e for e in ClientLogFile(str(folder / "netlog.json")) if isinstance(e, ToldExchange | ToldAltSvc)]
    ours = [event for event in events if event.origin == f"https://localhost:{ADVERTISED}"]
    return [e for e in ours if isinstance(e, ToldExchange)], [e for e in ours if isinstance(e, ToldAltSvc)]


def ours(seen: Watched) -> list[Record]:
    """The exchanges with the lab's server, in order: a browser asks its maker for this and that as well."""
    found = [e for e in seen.all("exchange") if e["origin"] == f"localhost:{ADVERTISED}"]
    return sorted(found, key=lambda exchange: exchange["at"])


def carriers(seen: Watched) -> list[str]:
    """The kind of connection of each exchange."""
    kinds = {c["id"]: c["type"] for c in (*seen.all("quic"), *seen.all("tcp"))}
    return [kinds[str(exchange["connection"])] for exchange in ours(seen)]


def test_alt_svc_is_learned_and_used(browser: Browser) -> None:
    """The NetLog's requests are on the wire where it says, the first over HTTP/2, the last over HTTP/3."""
    seen = browser.watched(["--client-log"], browser.command(requests=4))
    assert seen.exit == 0
    versions = [exchange["version"] for exchange in ours(seen)]
    assert len(versions) == 4
    assert (versions[0], versions[-1]) == ("HTTP/2", "HTTP/3")
    assert carriers(seen) == [{"HTTP/2": "tcp", "HTTP/3": "quic"}[str(version)] for version in versions]
    assert {exchange["status"] for exchange in ours(seen)} == {200}
    assert any("--log-net-log=" in line for line in seen.said)
    assert "h3-learned-late" in seen.rules


def test_an_alternative_behind_a_firewall_is_marked_broken(browser: Browser) -> None:
    """All goes over HTTP/2; once QUIC has failed the log says so of each request, and h3probe with it."""
    browser.lab.firewall(Firewall.DROP)
    seen = browser.watched(
        ["--client-log"], browser.command("--log-net-log=/lab/netlog.json", requests=4, pause_ms=2500)
    )
    assert [exchange["version"] for exchange in ours(seen)] == ["HTTP/2"] * 4
    assert set(carriers(seen)) == {"tcp"}
    exchanges, alt_svc = told(browser.lab.folder)
    assert [e.broken for e in exchanges] == [False, False, False, True]
    assert len(alt_svc) == 4
    assert "quic-unanswered" in seen.rules
    assert not seen.rules & {"no-quic-attempt", "repeated-timeout", "fallback-delay"}


def test_forced_quic_works(browser: Browser) -> None:
    """Every request goes over HTTP/3, and no TCP connection is made to the server."""
    seen = browser.watched(["--client-log"], browser.command(forced=ADVERTISED))
    assert [exchange["version"] for exchange in ours(seen)] == ["HTTP/3"] * 3
    assert set(carriers(seen)) == {"quic"}
    assert not any(str(connection["server"]).endswith(f":{ADVERTISED}") for connection in seen.all("tcp"))


def test_forced_quic_behind_a_firewall_fails(browser: Browser) -> None:
    """Each request fails with an attempt of its own, which it is joined to, and none with two."""
    browser.lab.firewall(Firewall.DROP)
    seen = browser.watched(["--client-log"], browser.command(requests=2, forced=ADVERTISED))
    failed = ours(seen)
    assert [exchange["error"] for exchange in failed] == ["net::ERR_QUIC_PROTOCOL_ERROR"] * 2
    assert len({exchange["connection"] for exchange in failed}) == 2
    assert set(carriers(seen)) == {"quic"}
    assert "repeated-timeout" not in seen.rules


def test_a_proxy_carries_no_http3(browser: Browser) -> None:
    """Through CONNECT all is HTTP/2, and the requests are joined to the connection with the tunnel."""
    browser.lab.start_tinyproxy()
    proxy = (f"--proxy-server=http://127.0.0.1:{PROXY}", "--proxy-bypass-list=<-loopback>;127.0.0.1")
    seen = browser.watched(["--client-log"], browser.command(*proxy))
    assert [exchange["version"] for exchange in ours(seen)] == ["HTTP/2"] * 3
    assert "proxy-downgrade" in seen.rules
    (tunnel,) = [t for t in seen.all("tunnel") if t["target"] == f"localhost:{ADVERTISED}"]
    (carrier,) = {exchange["connection"] for exchange in ours(seen)}
    (tcp,) = [t for t in seen.all("tcp") if t["id"] == carrier]
    assert tcp["client"] == tunnel["client"]


@pytest.mark.parametrize("blocked", [False, True])
def test_isolated(browser: Browser, *, blocked: bool) -> None:
    """In a network of its own, by an ordinary user, log and secrets tell the same; without UDP all is HTTP/2.

    With UDP the first request is HTTP/2 and the last one HTTP/3; the browser decides when it changes over.
    """
    browser.lab.folder.chmod(0o777)
    give_routes(browser.lab.netns)
    options = ["--isolate", *(["--block-udp"] if blocked else []), "--client-log", "--keylog", "keys.log"]
    seen = browser.watched(options, browser.command(requests=3, pause_ms=2500 if blocked else 300), uid=1000)
    by_log = [e["version"] for e in ours(seen) if e["known_from"] == "client-log"]
    assert [e["version"] for e in ours(seen) if e["known_from"] == "decrypted"] == by_log
    assert len(by_log) == 3
    assert (by_log[0], by_log[-1]) == ("HTTP/2", "HTTP/2" if blocked else "HTTP/3")
    (verdict,) = [v for v in seen.all("verdict") if v["origin"] == f"localhost:{ADVERTISED}"]
    assert verdict["versions"] == Counter(by_log)
    assert not blocked or verdict["versions"] == {"HTTP/2": 3}
    assert ("quic-unanswered" in seen.rules) is blocked


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes(browser: Browser) -> None:
    """Of a browser that was killed the log ends anywhere: what it holds is told, and nothing else."""
    browser.lab.run(browser.command("--log-net-log=/lab/netlog.json", forced=ADVERTISED))
    path = browser.lab.folder / "netlog.json"
    whole, text = told(path.parent)[0], path.read_bytes()
    begins = text.index(b'"events"')
    for part in range(1, 8):
        path.write_bytes(text[: begins + (len(text) - begins) * part // 8])
        assert told(path.parent)[0] == whole[: len(told(path.parent)[0])]
    assert len(whole) == 3


def test_its_secrets_are_read_while_it_is_watched(browser: Browser) -> None:
    """Exchanges come out of the packets, live and again from the file, and agree with the client's own log."""
    seen = browser.watched(["--keylog", "keys.log", "--client-log", "-w", "trace.pcapng"], browser.command(requests=4))
    folder = browser.lab.folder

    def row(exchange: Record) -> tuple[object, ...]:
        return exchange["url"], exchange["version"], exchange["status"]

    by_log = [row(e) for e in ours(seen) if e["known_from"] == "client-log"]
    decrypted = [row(e) for e in ours(seen) if e["known_from"] == "decrypted"]
    assert decrypted == by_log
    assert len(decrypted) == 4
    for name in ("keys.log", "trace.pcapng"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    ran = browser.lab.run_here([*H3PROBE, "explain", "--json", "trace.pcapng"])
    again = Watched.of(ran, folder)
    assert [row(e) for e in ours(again)] == decrypted
    assert {str(e["known_from"]) for e in ours(again)} == {"decrypted"}
