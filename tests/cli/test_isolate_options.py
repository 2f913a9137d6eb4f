from __future__ import annotations

import pytest

from h3probe.cli import main
from h3probe.cli.isolate_options import IsolateOptions
from h3probe.vantage.isolate.spec import IsolateSpec

NOTHING = {
    "isolate": True,
    "block_udp": None,
    "reject_udp": None,
    "loss": None,
    "mtu": None,
    "delay": None,
    "rate": None,
    "no_ipv6": False,
    "no_https_rr": False,
}


def spec(**given: object) -> IsolateSpec | None:
    """What is asked for with these options."""
    return IsolateOptions(**(NOTHING | given)).spec()  # type: ignore[arg-type]


def test_nothing_is_changed_unless_asked() -> None:
    """--isolate alone is a network like the host's own."""
    assert spec() == IsolateSpec()
    assert spec(isolate=False) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"block_udp": ""}, IsolateSpec(block_udp=frozenset())),
        ({"block_udp": "443,8443"}, IsolateSpec(block_udp=frozenset({443, 8443}))),
        ({"reject_udp": ""}, IsolateSpec(reject_udp="port")),
        ({"reject_udp": "admin"}, IsolateSpec(reject_udp="admin")),
        ({"reject_udp": "443"}, IsolateSpec(reject_udp="port", reject_ports=frozenset({443}))),
        ({"reject_udp": "admin:443,444"}, IsolateSpec(reject_udp="admin", reject_ports=frozenset({443, 444}))),
        ({"loss": 5.0, "mtu": 1300, "delay": 20.0, "rate": 8.0}, IsolateSpec(None, None, frozenset(), 5, 1300, 20, 8)),
        ({"no_ipv6": True, "no_https_rr": True}, IsolateSpec(ipv6=False, https_rr=False)),
    ],
)
def test_each_option(given: dict[str, object], expected: IsolateSpec) -> None:
    """Each option is what the isolation is asked for, and they combine."""
    assert spec(**given) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--isolate"], "--isolate is for a command"),
        (["--block-udp", "--", "true"], "--block-udp is for --isolate"),
        (["--no-https-rr", "--", "true"], "--no-https-rr is for --isolate"),
        (["--isolate", "-i", "lo", "--", "true"], "--isolate excludes --relay"),
        (["--isolate", "--relay", "1=a:2", "--", "true"], "--isolate excludes --relay"),
        (["--isolate", "--proxy", "8899", "--", "true"], "--isolate and a proxy exclude each other"),
        (["--isolate", "--block-udp", "http", "--", "true"], "'http' is no port"),
        (["--isolate", "--reject-udp", "rst:443", "--", "true"], "[port|admin][:PORTS]"),
        (["--isolate", "--block-udp", "--reject-udp", "admin:443", "--", "true"], "different ports"),
        (["--isolate", "--loss", "101", "--", "true"], "--loss"),
        (["--isolate", "--mtu", "12", "--", "true"], "--mtu"),
    ],
)
def test_what_makes_no_sense(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is status 2, and one message that says what is right."""
    assert main(["watch", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
