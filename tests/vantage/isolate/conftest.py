"""An uplink that leads nowhere, so that isolations can be made where pasta is not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.vantage.conftest import IS_ROOT

PASTA = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "pasta 2026_01_01.made-for-tests"; exit; fi
while [ $# -gt 0 ]; do
    case $1 in
        --netns) net=$2 ;;
        --ns-ifname) name=$2 ;;
    esac
    shift
done
exec nsenter --net="$net" sh -euc '
    ip link add "$1" type veth peer name far
    ip addr add 198.18.0.14/29 dev "$1"
    ip link set far up
    ip link set "$1" up
    ip neigh add 198.18.0.9 lladdr 02:00:00:00:00:09 dev "$1"
    ip route add default via 198.18.0.9
    exec sleep 600
' sh "$name"
"""

FAILING_PASTA = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "pasta 2026_01_01.made-for-tests"; exit; fi
echo "Nothing works" >&2
exit 1
"""


def put_pasta(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a script be the pasta that is found."""
    path = folder / "pasta"
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def pasta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_network: None) -> None:
    """A host without routes, and an uplink that connects with nobody."""
    del own_network
    missing = [tool for tool in ("ip", "nft", "nsenter") if shutil.which(tool) is None]
    if not IS_ROOT or missing or not Path("/dev/net/tun").exists():
        pytest.skip(f"needs root on Linux, /dev/net/tun, ip, nft and nsenter (missing: {missing})")
    put_pasta(tmp_path, monkeypatch, PASTA)
