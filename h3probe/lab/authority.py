"""A certificate authority that lives as long as the lab, and the server certificate it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

TRUST_STORE_PASSWORD = "changeit"  # noqa: S105 -- Java's own default; the store holds a public certificate
_LIFETIME = dt.timedelta(days=30)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Where the files of the lab's own authority are.

    Attributes:
        ca_file: The authority's certificate, PEM.
        cert_file: The server's certificate for localhost, 127.0.0.1 and ::1, PEM.
        key_file: The server's private key, PEM, readable by its owner only.
        trust_store: The authority's certificate as a Java trust store (PKCS#12, `TRUST_STORE_PASSWORD`).
    """

    ca_file: Path
    cert_file: Path
    key_file: Path
    trust_store: Path


def create_authority(directory: Path) -> Authority:
    """Make an authority and a server certificate in `directory`.

    The authority's private key is forgotten at once: nothing can be signed by it later.

    Args:
        directory: An existing folder that only its owner can enter.

    Raises:
        OSError: When the files cannot be written.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign_authority(ca_key)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _sign_server(key, ca, ca_key)

    authority = Authority(*(directory / name for name in ("ca.pem", "server.pem", "server.key", "trust.p12")))
    authority.ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    authority.cert_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    authority.trust_store.write_bytes(
        # Java takes an entry for a trusted certificate only with an attribute of its own, which this function sets.
        serialize_java_truststore(
            [PKCS12Certificate(ca, b"h3probe lab")], BestAvailableEncryption(TRUST_STORE_PASSWORD.encode())
        )
    )
    _write_private(authority.key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return authority


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: str, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _sign_authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = "h3probe lab, a throw-away authority"
    return (
        _builder(name, _name(name), key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _sign_server(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    return (
        _builder("localhost", ca.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # Python 3.13 verifies strictly and asks for the key identifiers (RFC 5280, 4.2.1.1).
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_private(path: Path, data: bytes) -> None:
    # The mode is given at creation: a chmod afterwards would leave a moment in which others can open the file.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
