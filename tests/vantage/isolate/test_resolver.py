from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.vantage.isolate.resolver import replacements, resolv_conf

if TYPE_CHECKING:
    from pathlib import Path

HOST = """\
# made by somebody
nameserver 127.0.0.53
nameserver 192.0.2.1
search example.com corp.example
options edns0 trust-ad
"""


def test_search_list_and_options_are_kept() -> None:
    """Only the name servers are exchanged, for the one that is there."""
    assert resolv_conf(HOST, "198.18.0.10") == (
        "nameserver 198.18.0.10\nsearch example.com corp.example\noptions edns0 trust-ad\n"
    )


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file behind a link is what has to be covered."""
    real = tmp_path / "stub-resolv.conf"
    real.write_text(HOST)
    link = tmp_path / "resolv.conf"
    link.symlink_to(real)
    ((path, text),) = replacements("198.18.0.10", link, [tmp_path / "no-such-service"])
    assert path == str(real)
    assert text.startswith("nameserver 198.18.0.10\n")


def test_resolving_services_are_covered(tmp_path: Path) -> None:
    """A service that the C library would ask past resolv.conf is made one that nobody can connect to."""
    conf, service = tmp_path / "resolv.conf", tmp_path / "io.systemd.Resolve"
    conf.write_text(HOST)
    service.touch()
    assert replacements("198.18.0.10", conf, [service])[1:] == [(str(service), "")]


def test_without_a_file_there_is_nothing_to_replace(tmp_path: Path) -> None:
    """A host without resolv.conf stays one."""
    assert replacements("198.18.0.10", tmp_path / "resolv.conf", [tmp_path]) == []
