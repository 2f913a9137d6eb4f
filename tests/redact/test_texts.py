"""Names where they are text."""

from __future__ import annotations

import pytest

from h3probe.redact import Mapping
from h3probe.redact.texts import TextRedactor
from tests.redact.flows import KEY, NAME


def test_the_names_are_those_of_the_packets() -> None:
    """A host is replaced as in a packet, wherever it stands."""
    mapping = Mapping(KEY)
    texts = TextRedactor(mapping)
    name, new = NAME.decode(), mapping.host(NAME).decode()
    assert texts.host(name) == new
    assert texts.authority(f"{name}:443") == f"{new}:443"
    assert texts.url(f"https://{name}/").startswith(f"https://{new}/")
    assert texts.alt_svc(f'h3="{name}:443"; ma=60') == f'h3="{new}:443"; ma=60'


def test_a_common_program_stays() -> None:
    """What many have tells of nobody."""
    texts = TextRedactor(Mapping(KEY))
    assert texts.program("curl") == "curl"
    assert texts.program("annstool") == texts.letters("annstool") != "annstool"


@pytest.mark.parametrize("text", ["\udcff", "b\u00fccher.example", "\x1b[31m"])
def test_what_is_no_plain_text(text: str) -> None:
    """Whatever stands there, text comes of it."""
    texts = TextRedactor(Mapping(KEY))
    for redact in (texts.host, texts.program, texts.authority, texts.url, texts.alt_svc, texts.letters):
        redact(text).encode()
