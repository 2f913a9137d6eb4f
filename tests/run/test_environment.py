from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.run.environment import client, of_capture, of_run, proxy_settings, without_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("http://me:secret@proxy.example:3128/", "http://proxy.example:3128/"),
        ("me:secret@proxy.example:3128", "proxy.example:3128"),
        ("http://me:se@c/ret@proxy.example:3128", "http://proxy.example:3128"),
        ("socks5://proxy.example", "socks5://proxy.example"),
    ],
)
def test_a_proxy_without_its_password(url: str, left: str) -> None:
    """Whatever a password has in it."""
    assert without_credentials(url) == left


def test_settings_that_lead_to_a_proxy() -> None:
    """The variables, and of Java's options those that say where it is; never who may use it."""
    environment: Mapping[str, str] = {
        "https_proxy": "http://me:secret@proxy.example:3128",
        "NO_PROXY": "localhost",
        "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy.example -Dhttps.proxyPassword=secret -Xmx1g",
        "PASSWORD": "secret",
    }
    command = ["java", "-Dhttp.nonProxyHosts=*.example", "-Dapi.key=secret", "-jar", "secret.jar"]
    assert proxy_settings(environment, command) == {
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
        "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy.example",
        "command line": "-Dhttp.nonProxyHosts=*.example",
    }


def test_the_client_by_its_file(tmp_path: Path) -> None:
    """A JDK's version stands in a file beside it, and nothing is run; arguments are nobody's business."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="26.0.1"\nMODULES="java.base"\nIMPLEMENTOR="N/A"\n')
    assert client([str(java), "-Dkey=secret"]) == {
        "program": "java",
        "path": str(java.resolve()),
        "java_version": "26.0.1",
        "implementor": "N/A",
    }
    assert client(["/nowhere/app", "secret"]) == {"program": "app"}


def test_a_run_tells_of_its_machine() -> None:
    """Versions, system, interfaces with their addresses, and the clock."""
    found = of_run(["curl", "--user", "me:secret"], ["lo"], {})
    assert found["recorded"] == "live"
    assert [interface["name"] for interface in found["interfaces"]] == ["lo"]
    assert "127.0.0.1" in found["interfaces"][0]["addresses"]
    assert found["clock"]["began"].endswith("Z")
    assert "secret" not in str(found)


def test_a_capture_tells_nothing_of_this_machine() -> None:
    """Who makes a bundle of somebody's capture was not there."""
    found = of_capture([str(Path.home() / "office.pcapng")])
    assert found["files"] == ["office.pcapng"]
    assert found.keys() == {"h3probe", "python", "packages", "recorded", "files"}
