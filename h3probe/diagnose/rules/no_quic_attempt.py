"""no-quic-attempt: HTTP/3 was offered, and the client went on over TCP."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean, count
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.wire.altsvc import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h3probe.diagnose.story import Story
    from h3probe.events import AltSvcSeen
    from h3probe.track.tcp import TcpConnection

SLUG = "no-quic-attempt"
ADVICE = (
    "Tell the client to use HTTP/3: JDK 26 needs version(HTTP_3) on the client or the request, curl --http3 or "
    "--alt-svc FILE. Browsers do not use it with a CA that was installed by hand."
)

# The last key of a service binding that clients know (RFC 9460, 14.3.2); they ignore a record that needs another one.
LAST_KEY = 6

BROKEN = (
    " By the client's own log it knows the alternative and has marked it broken: QUIC failed there before, and it will "
    "not try again for a while."
)
BROKEN_ADVICE = (
    "Find out why QUIC failed the first time: watch a client that has just been started, with a new profile. Chromium "
    "keeps the mark over a restart, and renews it for longer each time that QUIC fails again."
)


def advertised(story: Story) -> tuple[Mark, str] | None:
    """Return when and how a response offered HTTP/3 to the client, None where none was seen to."""
    for seen in story.alt_svc:
        if _max_age(seen) > 0:
            return Mark(None, seen.time_ns), f"alt-svc: {clean(', '.join(seen.passed_on), 200)}"
    return None


def offer(story: Story) -> tuple[Mark, str] | None:
    """Return when and how HTTP/3 was offered to the client, in a response or by DNS."""
    found = advertised(story)
    # A name's record is about its port 443; other ports have names of their own (RFC 9460, 2.3).
    if found is None and story.binding is not None and story.label.endswith(":443"):
        binding = story.binding.binding
        if "h3" in binding.alpn and max(binding.mandatory, default=0) <= LAST_KEY:
            hosts = {connection.client.host for connection in story.connections}
            other = story.binding.client
            to = "" if other.host in hosts or other.is_loopback else f", sent to {other.address}"
            return story.binding.mark, f"DNS HTTPS record of {clean(binding.name, 200)}: alpn h3{to}"
    return found


def _max_age(seen: AltSvcSeen) -> int:
    """For how many seconds the lines that the client got offer HTTP/3."""
    return max((a.max_age for a in parse(seen.passed_on).alternatives if a.protocol == "h3"), default=0)


def _stands(story: Story, mark: Mark) -> Callable[[int], bool]:
    """Tell of a time whether HTTP/3 is on offer: each response's lines replace the ones before (RFC 7838, 3)."""
    told = sorted((seen for seen in story.alt_svc if seen.passed_on), key=lambda seen: seen.time_ns)
    times = [seen.time_ns for seen in told]
    until = [seen.time_ns + _max_age(seen) * NS for seen in told]

    def stands(at_ns: int) -> bool:
        latest = bisect_left(times, at_ns) - 1
        return at_ns <= until[latest] if latest >= 0 else mark.time_ns < at_ns

    return stands


def check(story: Story) -> Iterator[Finding]:
    """Fire when an offer was seen, exchanges or connections over TCP began after it, and no Initial was sent."""
    offered = offer(story)
    if offered is None or story.quic or story.other_ports or story.tunnels or story.in_the_clear or story.mixed:
        return
    if story.across_by("quic") is not None:
        return
    mark, what = offered
    stands = _stands(story, mark)
    later = [e for e in story.exchanges if e.version not in (None, "HTTP/3") and stands(e.time_ns)]
    opened = [t for t in story.tcp if _is_web(t) and stands(t.first.time_ns)]
    if not later and not opened:
        return
    broken = [e for e in later if e.broken]
    went_on = count(len(later), "exchange") if later else count(len(opened), "connection")
    none = f"no QUIC to the {story.vantage}"
    if story.vantage == "wire":
        none = f"not one QUIC packet{' of this client' if story.among_others else ''}{story.as_far_as}"
    summary = f"{story.label} offers HTTP/3 ({what}); after that came {went_on} over TCP and {none}."
    evidence = [(mark, what)]
    if opened:
        evidence.append((opened[0].first, "TCP begins after the offer"))
    elif later:
        evidence.append((Mark(None, later[0].time_ns), f"{clean(later[0].version or '', 16)} after the offer"))
    advice = ADVICE
    if broken:
        evidence.append((Mark(None, broken[0].time_ns), "by the client's log its HTTP/3 alternative is marked broken"))
        summary += BROKEN
        advice = BROKEN_ADVICE
    yield Finding(SLUG, "notice", summary, evidence, advice, list(story.tcp[:4]))


def _is_web(connection: TcpConnection) -> bool:
    """Whether its client offered HTTP."""
    return connection.hello is not None and not {"h2", "http/1.1"}.isdisjoint(connection.hello.alpn)


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="HTTP/3 was offered and not tried",
    looks_for=(
        "An Alt-Svc with h3 that reached the client, or a DNS HTTPS record with h3, then further exchanges or new "
        "connections over TCP, and no Initial to the origin or its name. Through a CONNECT proxy the reason is "
        "another one, `proxy-downgrade`."
    ),
    advice=ADVICE,
    sources=("RFC 7838", "RFC 9460", "JEP 517: HTTP/3 is an opt-in"),
    check=check,
    rests_on_absence=True,
)
