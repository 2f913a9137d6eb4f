import pytest

from h3probe.cli import main
from h3probe.diagnose.rules import CATALOGUE


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the output 80 wide, whatever the terminal of who runs the tests."""
    monkeypatch.setenv("COLUMNS", "80")


def test_the_list_names_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a slug every rule stands on a line of its own, within 80 columns."""
    assert main(["rule"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for slug in CATALOGUE:
        assert [line for line in lines if line.startswith(f"{slug} ")]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("slug", CATALOGUE)
def test_a_page_says_all_there_is(slug: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule's page has its severity, what it looks for, what to do and its sources."""
    assert main(["rule", slug]) == 0
    output = " ".join(capsys.readouterr().out.split())
    rule = CATALOGUE[slug]
    for text in (slug, rule.severity, rule.title, rule.looks_for, rule.advice, *rule.sources):
        assert " ".join(text.split()) in output


def test_an_unknown_slug_gets_the_nearest_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A slug with a slip in it is answered with status 2 and what was probably meant."""
    assert main(["rule", "quic-unaswered"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("h3probe: no rule 'quic-unaswered'; did you mean quic-unanswered")
    assert captured.err.count("\n") == 1


def test_a_slug_like_no_other_points_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """A slug that resembles none says where the names are."""
    assert main(["rule", "xyz"]) == 2
    assert capsys.readouterr().err == "h3probe: no rule 'xyz'; `h3probe rule` lists them\n"
