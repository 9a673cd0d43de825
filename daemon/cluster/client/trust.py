"""TLS contexts: trusted CAs and the client certificate."""

import ssl
from pathlib import Path

from events.errors import SettingsError


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
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{certificate} and {key}: no certificate with its key: {_reason(error)}"
        ) from error
    return context


def _reason(error: OSError) -> str:
    """What is wrong, without the paths of files that are only there for a moment."""
    return error.strerror or str(error)
