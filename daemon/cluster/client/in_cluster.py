"""Credentials of a pod: its service account's token, CA and namespace (rule K15.1).

Read here and not by the client library, whose loader keeps white space, never looks at the CA again
and brings every generated model into memory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daemon.cluster.client.credentials import Identity
from daemon.cluster.client.environment import proxy_for
from daemon.cluster.client.trust import tls_context
from events.errors import SettingsError

HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class InCluster:
    """The service account that a pod runs as."""

    def __init__(self, environment: Mapping[str, str], account: Path = ACCOUNT) -> None:
        self._environment = environment
        self._account = account
        self._ca_stamp = (0, 0)

    @property
    def is_present(self) -> bool:
        """Whether this process is in a pod that may speak to its API server."""
        is_configured = bool(self._environment.get(HOST) and self._environment.get(PORT))
        return is_configured and (self._account / "token").is_file()

    async def load(self, known: Identity | None, *, is_refused: bool) -> Identity:
        """The token as it is now, and the CA if its file is another one."""
        token = self._text("token")
        authority = self._account / "ca.crt"
        try:
            status = authority.stat()
        except OSError as error:
            raise SettingsError(f"{authority}: {error.strerror}") from error
        stamp = (status.st_mtime_ns, status.st_ino)
        tls = known.tls if known is not None and stamp == self._ca_stamp else None
        if known is not None and tls is not None and known.authorization == f"Bearer {token}":
            return known
        server = f"https://{_bracketed(self._environment[HOST])}:{self._environment[PORT]}"
        identity = Identity(
            server=server,
            authorization=f"Bearer {token}",
            tls=tls or tls_context(authority),
            proxy=proxy_for(server, self._environment),
            namespace=self._text("namespace"),
        )
        self._ca_stamp = stamp
        return identity

    def _text(self, name: str) -> str:
        path = self._account / name
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise SettingsError(f"{path}: {getattr(error, 'strerror', error)}") from error
        if not text:
            raise SettingsError(f"{path}: is empty")
        return text


def _bracketed(host: str) -> str:
    """An IPv6 address as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
