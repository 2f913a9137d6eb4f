from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from h3probe.lab.authority import TRUST_STORE_PASSWORD, create_authority
from h3probe.lab.servers import temporary_authority

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.lab.authority import Authority


def test_server_certificate_names_loopback(authority: Authority) -> None:
    """The certificate is valid for localhost and both loopback addresses."""
    certificate = x509.load_pem_x509_certificate(authority.cert_file.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}


def test_authority_signed_it(authority: Authority) -> None:
    """The server's certificate verifies against ca.pem."""
    ca = x509.load_pem_x509_certificate(authority.ca_file.read_bytes())
    x509.load_pem_x509_certificate(authority.cert_file.read_bytes()).verify_directly_issued_by(ca)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_key_is_private(authority: Authority) -> None:
    """Only the owner can read the server's key, and no other key is left."""
    assert stat.S_IMODE(authority.key_file.stat().st_mode) == 0o600
    keys = [path for path in authority.ca_file.parent.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert keys == [authority.key_file]


def test_trust_store_has_javas_attribute(authority: Authority) -> None:
    """The trust store holds the authority's certificate, marked as trusted in the way Java asks for."""
    data = authority.trust_store.read_bytes()
    store = pkcs12.load_pkcs12(data, TRUST_STORE_PASSWORD.encode())
    ca = x509.load_pem_x509_certificate(authority.ca_file.read_bytes())
    assert [each.certificate for each in store.additional_certs] == [ca]
    assert store.key is None


def test_never_overwrites_a_key(tmp_path: Path) -> None:
    """A second authority in the same folder is refused instead of mixing two."""
    create_authority(tmp_path)
    with pytest.raises(FileExistsError):
        create_authority(tmp_path)


def test_temporary_authority_leaves_nothing() -> None:
    """The folder is gone after its context."""
    with temporary_authority() as authority:
        folder = authority.ca_file.parent
        assert authority.trust_store.exists()
    assert not folder.exists()
