"""The whole page: one file that loads nothing, tells the story, and holds hostile text as text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from h3probe.records import VerdictRecord
from h3probe.show.report import render
from tests.wire.packets import ethernet, frame, ipv4, udp

from .samples import CAPTURES, HOSTILE, STALE, explanation, finding, hostile, moment, page, quic, recorded, tcp, verdict

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "col"}
NAMES = sorted(path.stem for path in CAPTURES.glob("*.pcap"))


class Page(HTMLParser):
    """A page as a browser without mercy reads it: what is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "elements that are never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins; no attribute is there twice."""
        self.elements.append((tag, dict(attrs)))
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of SVG that holds nothing."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """The element that began last ends."""
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        """What is there to be read."""
        if not self._open or self._open[-1] not in {"script", "style"}:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """What is there to be read, blanks made one."""
        return " ".join("".join(self.text).split())


@pytest.mark.parametrize("name", NAMES)
def test_each_recording_makes_a_page_that_is_whole(name: str) -> None:
    """Elements are closed in order, no id is there twice, each inner link leads somewhere, each verdict is said."""
    made = Page(page(name))
    ids = [attributes["id"] for _, attributes in made.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = {attributes["href"] for tag, attributes in made.elements if tag in {"a", "use"}}
    assert links <= {f"#{i}" for i in ids}
    for record in recorded(name)[0].all_records:
        if isinstance(record, VerdictRecord):
            assert record.sentence.replace("`", "") in made.words


@pytest.mark.parametrize("text", [page(STALE), render(hostile(), {}, title=HOSTILE)], ids=["recorded", "hostile"])
def test_nothing_is_loaded_and_no_text_becomes_code(text: str) -> None:
    """One script and one style, named by their hashes in the policy; no handler, no address, no element that loads."""
    made = Page(text)
    tags = [tag for tag, _ in made.elements]
    assert tags.count("script") == tags.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "link", "base", "image", "video", "audio"} & set(tags)
    for tag, attributes in made.elements:
        assert not any(
            name.startswith("on") or name in {"src", "srcset", "style", "action", "xlink:href"} for name in attributes
        )
        assert all(value is None or value.startswith("#") for name, value in attributes.items() if name == "href"), tag
    policy = next(a["content"] for a in made.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        source = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "http" not in source[0].replace("http-", "")
        assert "@import" not in source[0]
    assert not re.search(r"url\((?!#)", text)


def test_hostile_text_is_spelled_out() -> None:
    """Markup is there to be read; control characters, bidirectional overrides and surrogates are visible escapes."""
    text = render(hostile(), {}, title=HOSTILE)
    made = Page(text)
    assert "<script>alert(1)</script>" in made.words
    assert "{{7*7}}" in made.words
    assert r"\x1b[31mred\x0d\x0a\u202egnp.exe\u2066\ud800\u200b" in made.words
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text)


def test_the_story_of_the_slow_request_is_told() -> None:
    """How long was lost, waiting for what, by which timer, and how to wait less: all before the packets."""
    words = Page(page(STALE)).words
    story = words[: words.index("Headers and handshakes")]
    for said in (
        "30.0 s lost",
        "A later request waited 30.0 s for QUIC",
        "30.0 s lost waiting for QUIC",
        "JDK 26 HttpClient: 30 s until it gives up QUIC",
        "-Djdk.httpclient.quic.maxInitialTimeout",
    ):
        assert said in story


def test_the_evidence_leads_to_decoded_packets() -> None:
    """A link beside the evidence, another one in the chart; behind them the fields of an Initial, opened."""
    made = Page(page(STALE))
    links = [a["href"] for a in made.all("a") if a.get("class") == "packet"]
    assert links.count("#p24") >= 2
    assert "ClientHello" in made.words
    assert "max_idle_timeout" in made.words


def test_it_is_laid_out_for_those_who_do_not_see_it() -> None:
    """A language, a title, landmarks, headings without a step left out, names for what is focused or is a picture."""
    made = Page(page(STALE))
    assert made.all("html")[0]["lang"] == "en"
    assert {"header", "main", "footer", "title"} <= {tag for tag, _ in made.elements}
    levels = [int(tag[1]) for tag, _ in made.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    for tag, attributes in made.elements:
        if attributes.get("role") in {"img", "region", "group"}:
            assert attributes.get("aria-label") or attributes.get("aria-labelledby"), tag


def test_the_folders_of_whoever_made_it_stay_at_home() -> None:
    """Of the capture there is the title, and not where it lay."""
    assert str(CAPTURES) not in page(STALE)
    assert str(CAPTURES) in repr(recorded(STALE)[0].all_records[0])


def test_what_is_not_known_is_not_made_up() -> None:
    """An empty capture, and an origin without connections, make a page as well."""
    assert "Nothing to judge" in Page(render(explanation(), {}, title="empty.pcap")).words
    assert "example.org:443" in Page(render(explanation(verdict()), {}, title="x")).words


def test_a_packet_that_cannot_be_read_is_no_obstacle() -> None:
    """Frames of nothing, and frames that are missing, cost their fields alone."""
    told = explanation(quic(), verdict(), finding(), moments=(moment("quic-1", 0.0, "Initial", frame=1),))
    assert "cannot be read" in render(told, {1: frame(b"\x00")}, title="x")
    assert "packet 1" in Page(render(told, {}, title="x")).words
    assert "UDP" in render(told, {1: frame(ethernet(ipv4(udp())))}, title="x")


def test_a_capture_of_a_hundred_thousand_connections_makes_a_small_page() -> None:
    """What is drawn and listed has a limit, and the page says how much is not."""
    records = [made for n in range(50_000) for made in (quic(n, n / 10), tcp(n, n / 10))]
    moments = tuple(
        moment(record.id, record.at, "Initial", weight="start", frame=n) for n, record in enumerate(records)
    )
    told = explanation(*records, verdict(), finding(), moments=moments)
    told.all_records += [verdict(n, f"host{n}.example:443") for n in range(2, 5_000)]
    text = render(told, {n: frame(ethernet(ipv4(udp()))) for n in range(1_000)}, title="x")
    assert len(text) < 3_000_000
    assert "99,976 connections more are not drawn." in text
    assert "4,998 more origins" in text
