"""Certificates and keys for a federation on one machine.

In production a SuperLink has a certificate of the organization's own authority, and every site
makes its own key pair and hands over the public half (docs/flower.md has the commands).
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = 30


@dataclass(frozen=True)
class Credentials:
    """Files of a SuperLink with TLS: who all trust, its own certificate, and its private key."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def superlink_flags(self) -> list[str]:
        """TLS, and only SuperNodes whose keys are registered."""
        return [
            "--ssl-ca-certfile", str(self.authority), "--ssl-certfile", str(self.certificate),
            "--ssl-keyfile", str(self.key), "--enable-supernode-auth",
        ]  # fmt: skip


def make_credentials(folder: Path) -> Credentials:
    """An authority and a certificate for 127.0.0.1, valid for ``DAYS`` days."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority, own = _name("pfl authority"), _name("localhost")
    root = _certificate(authority, authority, authority_key, authority_key, is_authority=True)
    leaf = _certificate(own, authority, key, authority_key, is_authority=False)
    made = Credentials(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    made.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    _write_private(made.key, key)
    return made


def make_key_pair(path: Path) -> tuple[Path, Path]:
    """A SuperNode's private key at ``path`` and its public one beside it."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_private(path, key, serialization.PrivateFormat.OpenSSH)
    public = path.with_name(path.name + ".pub")
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    public.write_bytes(key.public_key().public_bytes(*form))
    return path, public


def _write_private(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> None:
    """Store a private key that only its owner can read."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(signer, hashes.SHA256())
