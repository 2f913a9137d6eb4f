"""Requests that a client did not even try, as its own log tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.diagnose.origin import origin_of_url
from h3probe.text import clean, count

if TYPE_CHECKING:
    from collections.abc import Collection

    from h3probe.track.told import ToldFacts

URI_ONLY = (
    "this is what HTTP_3_URI_ONLY with a proxy looks like: the request fails at once, with "
    "UnsupportedProtocolVersionException."
)
UNSUPPORTED = "UnsupportedProtocolVersionException"
UNSENT = (
    "Nothing was sent: by the client's own log, {}. HTTP_3_URI_ONLY and a proxy exclude each other: exempt the host "
    "(-Dhttp.nonProxyHosts), or use ANY, which is HTTP/2 then."
)
NEVER_TRIED = "Nothing was sent: by the client's own log {} to be HTTP/3, and no connection was tried. With JDK 26 {}"


def untried_origins(facts: ToldFacts, known: Collection[str | None], *, silent: bool) -> dict[str, str]:
    """Return the origins of such requests, each with a sentence.

    Args:
        facts: What was told of.
        known: Origins that something was sent to.
        silent: Whether the client is known to have sent nothing at all. Then also a request is one of which no more is
            told than that it was to be HTTP/3; otherwise it may have gone over TCP.
    """
    sentences: dict[str, str] = {}
    for sighting in facts.exchanges:
        error, origin = sighting.told.error, origin_of_url(sighting.told.origin)
        if error is not None and UNSUPPORTED in error and sighting.connection is None and origin not in known:
            sentences[origin] = UNSENT.format(clean(error, 160))
    for origin, number in Counter(origin_of_url(each.origin) for each in facts.asked if silent).items():
        was = f"{count(number, 'request')} {'was' if number == 1 else 'were'}"
        sentences.setdefault(origin, NEVER_TRIED.format(was, URI_ONLY))
    return sentences
