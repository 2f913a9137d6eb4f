from __future__ import annotations

import os
import shutil
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from h3probe.errors import UserError
from h3probe.lab.authority import create_authority
from h3probe.vantage.proxy_trust import (
    CA_CERTIFICATE,
    TRUST_STORE_PASSWORD,
    default_folder,
    make_trust,
    private_folder,
    system_roots,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    """The authority lives below $XDG_DATA_HOME, else below the home folder; a relative one does not count."""
    assert default_folder({"XDG_DATA_HOME": "/data", "HOME": "/home/me"}).as_posix() == "/data/h3probe/proxy"
    for environment in ({"HOME": str(tmp_path)}, {"HOME": str(tmp_path), "XDG_DATA_HOME": "data"}):
        assert default_folder(environment) == tmp_path / ".local/share/h3probe/proxy"


def test_a_private_folder(tmp_path: Path) -> None:
    """It is made for its owner alone, and one that was open to others is closed."""
    folder = private_folder(tmp_path / "a" / "b")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert private_folder(folder).stat().st_mode & 0o777 == 0o700


def test_no_private_folder(tmp_path: Path) -> None:
    """A link is not followed, and a file is no folder: a key written there could be anybody's."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "file/below"):
        with pytest.raises(UserError):
            private_folder(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that is somebody else's")
def test_somebody_elses_folder(tmp_path: Path) -> None:
    """A folder of another user is refused."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(UserError, match="somebody else"):
        private_folder(folder)


def test_system_roots(tmp_path: Path) -> None:
    """What the user set comes first; a file that is not there does not count."""
    roots = tmp_path / "roots.pem"
    roots.write_text("")
    assert system_roots({"SSL_CERT_FILE": str(roots)}) == roots
    assert system_roots({"SSL_CERT_FILE": str(tmp_path / "none")}) == system_roots({})


def test_trust(tmp_path: Path) -> None:
    """Bundle and trust store hold the proxy's authority and everybody who was trusted before."""
    for name in ("mine", "before"):
        (tmp_path / name).mkdir()
    mine, before = create_authority(tmp_path / "mine"), create_authority(tmp_path / "before")
    folder = tmp_path / "proxy"
    folder.mkdir()
    shutil.copy(mine.ca_file, folder / CA_CERTIFICATE)
    # As systems have them: names between the certificates, and one of them broken.
    roots = tmp_path / "roots.pem"
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    roots.write_text(f"# a root\n{before.ca_file.read_text()}\n# a broken one\n{broken}")

    trust = make_trust(folder, roots)
    assert trust.ca_file == folder / CA_CERTIFICATE
    assert mine.ca_file.read_text() in trust.bundle.read_text()
    assert before.ca_file.read_text() in trust.bundle.read_text()
    store = load_pkcs12(trust.trust_store.read_bytes(), TRUST_STORE_PASSWORD.encode())
    names = {entry.certificate.public_bytes(encoding=Encoding.PEM) for entry in store.additional_certs}
    assert names == {mine.ca_file.read_bytes(), before.ca_file.read_bytes()}


def test_a_bundle_that_openssl_reads(tmp_path: Path) -> None:
    """The bundle can be loaded, with the system's roots in it."""
    authority = create_authority(tmp_path)
    shutil.copy(authority.ca_file, tmp_path / CA_CERTIFICATE)
    trust = make_trust(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trust.bundle)
    assert context.cert_store_stats()["x509_ca"] >= 1


def test_no_authority_yet(tmp_path: Path) -> None:
    """Before the proxy has run once there is nothing to trust."""
    with pytest.raises(UserError, match=CA_CERTIFICATE):
        make_trust(tmp_path)
