"""TLS contexts: trusted CAs and the client certificate."""

import asyncio
import ssl
from pathlib import Path
from typing import Final

import structlog

from events.errors import SettingsError

RENEWAL_SECONDS: Final = 60.0
"""Time between two looks at the files of a listener's certificate."""

logger: Final = structlog.get_logger("muster")


def tls_context(
    authority: Path | None,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    is_verified: bool = True,
) -> ssl.SSLContext:
    """A context that trusts one CA file, or the system's where none is given."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"{authority}: no CA certificates: {_reason(error)}") from error
    # Python 3.13 would refuse the CAs of many clusters, which lack extensions that Go does not ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"client certificate: {_reason(error)}") from error
    return context


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A context for a listener with a certificate and its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Each renegotiation would cost as much as a handshake, which is counted where a connection begins.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load(context, certificate, key)
    return context


async def keep_certificate(
    context: ssl.SSLContext, certificate: Path, key: Path, check_seconds: float = RENEWAL_SECONDS
) -> None:
    """Load the certificate of a listener again whenever its files changed, for ever; connections that are open keep the old one."""
    before = _stamps(certificate, key)
    while True:
        await asyncio.sleep(check_seconds)
        now = await asyncio.to_thread(_stamps, certificate, key)
        if now == before:
            continue
        before = now
        try:
            await asyncio.to_thread(_load, context, certificate, key)
        except SettingsError as error:
            logger.warning("a renewed certificate was not loaded", error=str(error))
        else:
            logger.info("a renewed certificate was loaded", file=str(certificate))


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{certificate} and {key}: no certificate with its key: {_reason(error)}"
        ) from error


def _stamps(*paths: Path) -> list[tuple[int, int, int] | None]:
    """Return what tells versions of files apart; None for a file that is not there."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found


def _reason(error: OSError) -> str:
    """What is wrong, without the paths of files that are only there for a moment."""
    return error.strerror or str(error)
