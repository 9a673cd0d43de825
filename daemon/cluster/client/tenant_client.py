"""Ask a running daemon `why`, with the bearer token of a kubeconfig.

The way is a URL, or the API server's proxy to the Service of the daemon. The proxy removes `Authorization`, so the token
is sent once more in `X-Muster-Authorization`.
"""

from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from daemon.cluster.client.credentials import Access, Credentials
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.transport import new_session, timeouts, translated, whole_body
from daemon.environment import ENVIRONMENT
from daemon.version import VERSION
from events.errors import ClusterError, SettingsError, UsageError

ASK_SECONDS: Final = 40.0
"""Longer than the daemon takes at most."""
BYTES_MAX: Final = 2 << 20
LOCAL: Final = ("localhost", "127.0.0.1", "::1")
SERVICE: Final = "muster-system/muster:http"
"""Namespace, name and port of the Service, as deployed."""
HEADER: Final = "X-Muster-Authorization"


class _Refusal(Struct):
    error: str = ""
    message: str = ""
    """Of a Status, where the API server refuses."""


async def ask_daemon(
    subject: str, access: Access, server: str | None = None, service: str = SERVICE
) -> bytes:
    """Return the JSON of the answer about `Kind/namespace/name`.

    Raises UsageError if the log has no such subject or an option is malformed, ClusterError if the daemon or the API server
    refuses or does not answer.
    """
    root = None if server is None else _checked(server)
    path = f"/v1/why/{'/'.join(quote(one, safe='') for one in subject.split('/'))}"
    identity = (await Credentials.load(source_for(access, ENVIRONMENT))).identity
    if not identity.authorization.startswith("Bearer "):
        raise SettingsError(
            "the context of the kubeconfig has no bearer token, by which muster knows who asks"
            " (`kubectl create token` makes one for a service account); or give --log"
        )
    headers = {"Authorization": identity.authorization, HEADER: identity.authorization}
    proxy, tls, name = None, None, None
    if root is None:
        root = identity.server + _proxy_path(service)
        proxy, tls, name = identity.proxy, identity.tls, identity.server_name
    session = new_session(f"muster/{VERSION}")
    try:
        with translated("ask why", root):
            response = await session.get(
                root + path,
                headers=headers,
                allow_redirects=False,
                timeout=timeouts(ASK_SECONDS),
                ssl=tls or True,
                server_hostname=name,
                proxy=proxy,
            )
            try:
                body = await whole_body(response, BYTES_MAX)
            finally:
                response.release()
    finally:
        await session.close()
    if response.status == 200:
        return body
    reason = _reason(body)
    if response.status == 404 and reason.startswith("the log has no"):
        raise UsageError(reason)
    raise ClusterError(f"{root}: {response.status}: {reason or response.reason}")


def _checked(server: str) -> str:
    try:
        parts = urlsplit(server)
        host = parts.hostname
    except ValueError as error:
        raise UsageError(f"--server {server}: {error}") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UsageError(f"--server {server}: not a URL such as https://HOST:PORT")
    if parts.scheme == "http" and host not in LOCAL:
        raise UsageError(f"--server {server}: a token is sent by https only, or to localhost")
    return server.rstrip("/")


def _proxy_path(service: str) -> str:
    namespace, slash, rest = service.partition("/")
    name, colon, port = rest.partition(":")
    if not (slash and colon and namespace and name and port) or "/" in rest or ":" in port:
        raise UsageError(f"--service {service}: not NAMESPACE/NAME:PORT")
    target = quote(f"http:{name}:{port}", safe=":")
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/services/{target}/proxy"


def _reason(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.DecodeError, UnicodeError):
        return " ".join(body[:200].decode("utf-8", "replace").split())
    return found.error or found.message
