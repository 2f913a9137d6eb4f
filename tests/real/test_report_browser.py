"""The report in a real browser: it loads nothing, complains about nothing, and shows the packets that are asked for."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from h3probe.show.report import render
from tests.show.report.samples import HOSTILE, STALE, hostile, page

from .devtools import Chromium
from .netns import Netns
from .parts import SET_UP, RealParts

PHONE, SCREEN = (390, 844), (1280, 900)
ESCAPE, ENTER = 27, 13


@pytest.fixture(scope="module")
def browser(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Give a browser that has the reports in its folder `/lab`."""
    if not (parts.folder / "root/usr/bin/chromium").exists():
        pytest.skip(f"Chromium is not among the real programs: {SET_UP}")
    folder = tmp_path_factory.mktemp("reports")
    (folder / "stale.html").write_text(page(STALE), encoding="utf-8")
    (folder / "hostile.html").write_text(render(hostile(), {}, title=HOSTILE), encoding="utf-8")
    with Netns("report") as netns, Chromium(parts.command(["chromium"]), netns, folder) as chromium:
        yield chromium


def show(browser: Chromium, name: str, size: tuple[int, int] = SCREEN, scheme: str = "light") -> None:
    """Open a report, on a screen of this size."""
    browser.events.clear()
    width, height = size
    browser.ask(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.ask("Emulation.setEmulatedMedia", features=features)
    browser.open(f"file:///lab/{name}.html")


def complaints(browser: Chromium) -> list[str]:
    """What the console, the log and uncaught errors say."""
    browser.evaluate("new Promise(done => setTimeout(done, 100))")
    kinds = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
    return [json.dumps(event["params"]) for event in browser.events if event["method"] in kinds]


def requested(browser: Chromium) -> set[str]:
    """Every address that was asked for, whatever came of it."""
    sent = [event for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    return {event["params"]["request"]["url"].partition("#")[0] for event in sent}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [SCREEN, PHONE], ids=["screen", "phone"])
def test_it_fits_and_loads_nothing(browser: Chromium, size: tuple[int, int], scheme: str) -> None:
    """The file alone is read, nobody complains, nothing sticks out to the right, the colours are those asked for."""
    show(browser, "stale", size, scheme)
    assert complaints(browser) == []
    assert requested(browser) == {"file:///lab/stale.html"}
    assert browser.evaluate("document.documentElement.scrollWidth") <= size[0]
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    told = browser.evaluate("getComputedStyle(document.querySelector('.chart')).display")
    assert (told == "none") == (size == PHONE)


def test_a_click_shows_the_packet(browser: Chromium) -> None:
    """On the mark in the chart, and on the link beside the evidence: the fields are there, Escape takes them away."""
    show(browser, "stale")
    for selector in ('.waterfall a[href="#p24"]', '.evidence a[href="#p24"]'):
        browser.click(selector)
        assert browser.evaluate("document.getElementById('packet').open"), selector
        fields = browser.evaluate("document.getElementById('packet').innerText")
        assert "packet 24" in fields
        assert "ClientHello" in fields
        browser.press("Escape", ESCAPE)
        assert not browser.evaluate("document.getElementById('packet').open")
    assert complaints(browser) == []


def test_the_keyboard_alone_is_enough(browser: Chromium) -> None:
    """Enter on a focused mark shows its packet; closed, the focus is where it was."""
    show(browser, "stale")
    browser.evaluate("""document.querySelector('.waterfall a[href="#p24"]').focus()""")
    browser.press("Enter", ENTER, "\r")
    assert browser.evaluate("document.getElementById('packet').open")
    browser.press("Escape", ESCAPE)
    assert browser.evaluate("document.activeElement.getAttribute('href')") == "#p24"


def test_javascript_is_not_needed(browser: Chromium) -> None:
    """Without it the same link leads to the same fields, in a list that opens there."""
    fields = "document.getElementById('p24')"
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(browser, "stale")
        assert browser.evaluate(f"{fields}.checkVisibility()") is False
        browser.click('.evidence a[href="#p24"]')
        assert browser.evaluate("location.hash") == "#p24"
        assert browser.evaluate("document.getElementById('packet').open") is False
        assert browser.evaluate(f"{fields}.checkVisibility()") is True
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_hostile_text_stays_text(browser: Chromium) -> None:
    """Scripts in an SNI, a header or a process name run nowhere and make no element."""
    show(browser, "hostile")
    assert complaints(browser) == []
    assert requested(browser) == {"file:///lab/hostile.html"}
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == 0
    assert not [event for event in browser.events if event["method"] == "Page.javascriptDialogOpening"]
    assert "<script>alert(1)</script>" in browser.evaluate("document.body.innerText")


def test_a_script_that_got_in_would_not_run(browser: Chromium) -> None:
    """The page's own policy stops what escaping would have missed, and what would be loaded."""
    show(browser, "stale")
    browser.evaluate(
        "(() => { const script = document.createElement('script'); script.textContent = 'window.hacked = 1';"
        " const image = new Image(); image.src = 'http://192.0.2.1/x.png'; document.body.append(script, image) })()"
    )
    assert browser.evaluate("window.hacked") is None
    assert "Content Security Policy" in " ".join(complaints(browser))


def test_every_mark_can_be_reached_and_has_a_name(browser: Chromium) -> None:
    """In the accessibility tree: landmarks, one heading of the first level, and no link without a name."""
    show(browser, "stale")
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    assert {"banner", "main", "contentinfo"} <= {role for role, _ in roles}
    assert all(name for role, name in roles if role in {"link", "button", "heading", "region"})
    assert any("packet 24" in name and "Initial" in name for role, name in roles if role == "link")


def test_it_can_be_printed(browser: Chromium, tmp_path: Path) -> None:
    """A PDF comes of it, with more than one page's worth in it."""
    show(browser, "stale")
    printed = browser.ask("Page.printToPDF", printBackground=False)["data"]
    (tmp_path / "report.pdf").write_text(printed)
    assert len(printed) > 20_000
