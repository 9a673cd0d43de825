"""Signatures of heads: whoever can write the file of a log can rewrite all of its chain, but cannot sign it without the key.

A signature is made by Ed25519 (RFC 8032) over `MAGIC`, the position, the digest of the record there and the time of signing. As the digest
covers every record before it, one signature covers the whole past. Keys are PEM files: the private one PKCS #8 without a password, the public one
SubjectPublicKeyInfo, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them.

The library of the algorithm is imported on demand only: most commands sign nothing.
"""

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.anchors import Anchor
from daemon.private_files import make_private, write_whole
from daemon.text_file import read_text
from events.errors import DamagedLogError, UsageError
from events.record import Head

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MAGIC: Final = "muster log head 1"
"""The first line of what is signed, so that no signature of another program is taken for one."""

KEY_BYTES_MAX: Final = 64 << 10
"""A PEM file of one key has some hundred bytes."""


class Signature(Struct, frozen=True, forbid_unknown_fields=True):
    """A signed head. One line of JSON in a file of signatures, one row in the database."""

    position: int
    digest: str
    """The digest of the record at the position, 64 hexadecimal digits."""
    signed_at_ns: int
    key: str
    """The key that made it: the first 32 hexadecimal digits of the SHA-256 of the 32 bytes of the public key."""
    signature: str
    """64 bytes in hexadecimal digits."""

    @property
    def message(self) -> bytes:
        """Return the bytes that are signed."""
        return f"{MAGIC}\n{self.position}\n{self.digest}\n{self.signed_at_ns}\n".encode()


_LINES: Final = msgspec.json.Decoder(Signature)


class SigningKey:
    """A private key."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.checking = CheckingKey(private.public_key())
        """The public key that belongs to it."""
        self.key = self.checking.key

    def sign(self, head: Head, at_ns: int) -> Signature:
        """Sign a head. Raises UsageError for an empty log: it has nothing that could be rewritten."""
        if head.position == 0:
            raise UsageError("the log is empty: nothing to sign")
        unsigned = Signature(head.position, head.digest, at_ns, self.key, "")
        signature = self._private.sign(unsigned.message).hex()
        return msgspec.structs.replace(unsigned, signature=signature)


class CheckingKey:
    """A public key."""

    def __init__(self, public: "Ed25519PublicKey") -> None:
        self._public = public
        self.key = key_name(public)

    def is_of(self, signature: Signature) -> bool:
        """Return True if the key made a signature."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(bytes.fromhex(signature.signature), signature.message)
        except (InvalidSignature, ValueError):
            return False
        return True


def key_name(public: "Ed25519PublicKey") -> str:
    """Return the short name of a public key, which stands beside each of its signatures."""
    return sha256(public.public_bytes_raw()).hexdigest()[:32]


def read_signing_key(path: Path) -> SigningKey:
    """Read a private key, and take its file away from others. Raises UsageError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = _key_text(path)
    try:
        found = load_pem_private_key(text, password=None)
    except TypeError as error:
        raise UsageError(
            f"{path}: the private key has a password; give one without, in a file that only its owner reads"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: not a private key in PEM form") from error
    if not isinstance(found, Ed25519PrivateKey):
        raise UsageError(f"{path}: not an Ed25519 key; `muster log keygen` makes one")
    make_private(path)
    return SigningKey(found)


def read_checking_key(path: Path) -> CheckingKey:
    """Read a public key. Raises UsageError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text = _key_text(path)
    try:
        found = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        hint = "; it is a private key, give the public one" if b"PRIVATE KEY" in text else ""
        raise UsageError(f"{path}: not a public key in PEM form{hint}") from error
    if not isinstance(found, Ed25519PublicKey):
        raise UsageError(f"{path}: not an Ed25519 key; `muster log keygen` makes one")
    return CheckingKey(found)


def write_keys(private: Path, public: Path) -> str:
    """Make a pair of keys and write each into a new file; return its name. Raises UsageError where a file is there."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    made = Ed25519PrivateKey.generate()
    secret = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for path in (private, public):
        if path.exists():
            raise UsageError(f"{path}: exists; a key is never replaced")
    for path, content in ((private, secret), (public, shown)):
        try:
            write_whole(path, content, replaces=False, is_private=path == private)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return key_name(made.public_key())


def anchors_of(signatures: Iterable[Signature], key: CheckingKey | None) -> list[Anchor]:
    """Return what a log must have at the positions that were signed, by position.

    With a key only its signatures count, and a false one under its name raises DamagedLogError; so does a log without any. Without one
    nothing proves who made the signatures.
    """
    found: list[Anchor] = []
    for one in sorted(dict.fromkeys(signatures), key=lambda one: (one.position, one.signed_at_ns)):
        if key is not None and one.key != key.key:
            continue
        if key is not None and not key.is_of(one):
            raise DamagedLogError(
                f"position {one.position}: its signature was not made by key {one.key}, which it names"
            )
        found.append(
            Anchor(one.position, one.digest, f"its signature by key {one.key}", one.signed_at_ns)
        )
    if key is not None and not found:
        raise DamagedLogError(f"no signature of the log is by key {key.key}")
    return found


def read_signatures(path: Path) -> list[Signature]:
    """Read a file of signatures, one a line. Raises UsageError with the line."""
    found: list[Signature] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            one = _LINES.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: not a signature: {error}") from error
        if one.position < 1 or len(one.digest) != sha256().digest_size * 2:
            raise UsageError(f"{path}, line {number}: not a signature of a position and a digest")
        found.append(one)
    return found


def add_signature(path: Path, signature: Signature) -> None:
    """Add a signature to a file, durably. Raises UsageError."""
    try:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(signature) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


async def save(connection: AsyncConnection, signature: Signature) -> None:
    """Store a signature beside its record. A second one of a position by the same key changes nothing."""
    table, log = tables.log_signature, tables.log
    digest = select(log.c.digest).where(log.c.position == signature.position)
    if (await connection.execute(digest)).scalar() != signature.digest:
        raise DamagedLogError(
            f"position {signature.position}: the log does not have the digest of the signature"
        )
    is_same = (table.c.position == signature.position) & (table.c.key == signature.key)
    if (await connection.execute(select(table.c.position).where(is_same))).first() is None:
        values = msgspec.structs.asdict(signature)
        await connection.execute(insert(table).values(**values))


async def stored(connection: AsyncConnection) -> list[Signature]:
    """Return all stored signatures, by position."""
    table = tables.log_signature
    columns = (table.c[name] for name in Signature.__struct_fields__)
    rows = await connection.execute(select(*columns).order_by(table.c.position, table.c.key))
    return [Signature(*row) for row in rows]


def _key_text(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            return file.read(KEY_BYTES_MAX)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
