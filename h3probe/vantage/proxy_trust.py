"""The proxy's own certificate authority: where it is kept, and how a command is made to trust it."""

from __future__ import annotations

import os
import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.vantage import places

if TYPE_CHECKING:
    from collections.abc import Mapping

TRUST_STORE_PASSWORD: Final = "changeit"  # noqa: S105 - Java's own default; the store holds public certificates
CA_CERTIFICATE: Final = "mitmproxy-ca-cert.pem"
# Where systems keep their roots in one file, for Pythons whose OpenSSL looks in its build's own folder.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)


@dataclass(frozen=True, slots=True)
class Trust:
    """What makes a client trust the proxy, and everybody it trusted before.

    Attributes:
        ca_file: The authority's certificate alone, PEM.
        bundle: The system's roots and the authority, PEM.
        trust_store: The same as a Java trust store (PKCS#12, `TRUST_STORE_PASSWORD`).
    """

    ca_file: Path
    bundle: Path
    trust_store: Path


def default_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where the authority is kept: below $XDG_DATA_HOME, so that a browser has to be told of it once only."""
    environment = os.environ if environment is None else environment
    data = environment.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path(environment.get("HOME") or "~").expanduser() / ".local/share"
    return base / "h3probe" / "proxy"


def private_folder(folder: Path) -> Path:
    """Make the folder, for its owner alone, or find it to be so.

    Raises:
        UserError: It is somebody else's, or a link, or cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not folder.is_dir() or folder.is_symlink():
            raise UserError(f"{folder} is no folder: the key of the proxy's authority cannot be kept there")
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise UserError(f"{folder} belongs to somebody else: the key of the proxy's authority is not kept there")
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise UserError(f"the key of the proxy's authority cannot be kept in {folder}: {error.strerror}") from error
    return folder


def system_roots(environment: Mapping[str, str] | None = None) -> Path | None:
    """The file with the certificates that this system trusts; None where there is none."""
    environment = os.environ if environment is None else environment
    default = ssl.get_default_verify_paths().cafile
    for candidate in (environment.get("SSL_CERT_FILE"), default, *_BUNDLES):
        if candidate and places.is_file(candidate):
            return Path(candidate)
    return None


def make_trust(folder: Path, roots: Path | None = None) -> Trust:
    """Write what a command needs to trust the proxy, into the proxy's folder.

    Args:
        folder: With the authority's certificate in it, as the proxy has made it.
        roots: The certificates to trust besides, PEM; the system's unless given.

    Raises:
        UserError: There is no authority yet, or a file cannot be written.
    """
    ca_file = folder / CA_CERTIFICATE
    trust = Trust(ca_file, folder / "bundle.pem", folder / "trust.p12")
    roots = roots or system_roots()
    try:
        authority = ca_file.read_bytes()
        others = roots.read_bytes() if roots is not None else b""
        _write(trust.bundle, others.rstrip() + b"\n" + authority if others else authority)
        _write(trust.trust_store, _java_trust_store(authority, others))
    except OSError as error:
        raise UserError(f"the proxy's authority cannot be handed on: {error.filename}: {error.strerror}") from error
    return trust


def _java_trust_store(authority: bytes, others: bytes) -> bytes:
    from cryptography import x509  # noqa: PLC0415 - loaded where it is used
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415
        PKCS12Certificate,
        serialize_java_truststore,
    )

    certificates = x509.load_pem_x509_certificates(authority)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # systems keep old roots that break today's rules, and clients use them
        for block in _pem_blocks(others):
            try:
                certificates.append(x509.load_pem_x509_certificate(block))
            except ValueError:
                continue  # one that cannot be read is one that Java does not get
    # Java keeps entries by name, and takes the last of two that share one.
    entries = [PKCS12Certificate(each, f"h3probe-{number}".encode()) for number, each in enumerate(certificates)]
    return serialize_java_truststore(entries, BestAvailableEncryption(TRUST_STORE_PASSWORD.encode()))


def _pem_blocks(text: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----"
    begin = b"-----BEGIN CERTIFICATE-----"
    return [block[block.index(begin) :] + end + b"\n" for block in text.split(end) if begin in block]


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step: another run's command may be reading it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
