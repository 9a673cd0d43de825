"""Ask a running daemon, as the user of a kubeconfig: directly, or through the API server's service proxy."""

import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from daemon.cluster.client.answers import retry_after_seconds
from daemon.cluster.client.credentials import Access, Credentials, Identity
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.reviews import TOKEN_HEADER
from daemon.cluster.client.transport import new_session, timeouts, translated, whole_body
from daemon.cluster.client.trust import tls_context
from daemon.environment import ENVIRONMENT
from events.errors import ClusterError, SettingsError, UsageError
from events.limits import UNDECODABLE
from replay.tenant_answer import TenantAnswer

SECONDS: Final = 60.0
"""Seconds for an answer, as many as the daemon takes."""

ANSWER_BYTES_MAX: Final = 8 * 2**20


class TenantAccess(Struct, frozen=True):
    """How to reach the daemon."""

    service: str
    """Namespace, scheme, name and port of the Service in front of the daemon: `muster-system/https:muster-tenants:tenants`."""
    server: str | None = None
    """`https://host:port` of the daemon; None for the API server's service proxy."""
    authority: Path | None = None
    """A file with the CA of `server`; None for those of the system."""
    token: str | None = None
    """A token; None for that of the kubeconfig."""
    access: Access = Access()


class _Refusal(Struct):
    error: str = ""
    message: str = ""
    """The API server's own refusals have this."""


async def ask_daemon(reach: TenantAccess, subjects: list[tuple[str, str]]) -> TenantAnswer:
    """Return the answer about the first of some subjects (`Pod`, `ml/a`) that there is.

    Raises UsageError where there is none or no token, ClusterError where the daemon refuses or cannot be reached.
    """
    identity = await _identity(reach)
    token = reach.token or _token_of(identity)
    where = _base(reach, identity)
    session = new_session("muster-why")
    try:
        missing = ""
        for kind, key in subjects:
            namespace, _, name = key.partition("/")
            plural = "pods" if kind == "Pod" else "podgroups"
            url = f"{where}/v1/namespaces/{quote(namespace)}/{plural}/{quote(name)}/why"
            what = f"ask about {kind} {key}"
            headers = _headers(reach, identity, token)
            with translated(what, where):
                response = await session.get(
                    url,
                    headers=headers,
                    allow_redirects=False,
                    timeout=timeouts(SECONDS),
                    ssl=_tls(reach, identity) or True,
                    server_hostname=None if reach.server else identity.server_name,
                    proxy=None if reach.server else identity.proxy,
                )
                body = await whole_body(response, ANSWER_BYTES_MAX)
            if response.status == HTTPStatus.OK:
                return _answer(what, body)
            text = _refusal_text(body)
            if response.status == HTTPStatus.NOT_FOUND and "not in the log" in text:
                missing = missing or text
                continue
            wait = retry_after_seconds(response.headers)
            again = "" if wait is None else f"; ask again in {wait:g} s"
            raise ClusterError(f"{what}: {where} answered {response.status}: {text}{again}")
        raise UsageError(missing)
    finally:
        await session.close()


async def _identity(reach: TenantAccess) -> Identity:
    if reach.server is not None and reach.token is not None:
        return Identity(server=reach.server)
    try:
        return (await Credentials.load(source_for(reach.access, ENVIRONMENT))).identity
    except SettingsError as error:
        raise SettingsError(f"without --log the running daemon is asked: {error}") from error


def _base(reach: TenantAccess, identity: Identity) -> str:
    if reach.server is not None:
        parts = urlsplit(reach.server)
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise UsageError(f"--server {reach.server!r} is no URL, such as https://muster:8443")
        if parts.scheme == "http" and not is_local:
            raise UsageError(f"--server {reach.server}: a token is sent only over https")
        return reach.server.rstrip("/")
    namespace, slash, service = reach.service.partition("/")
    if not (namespace and slash and service) or "/" in service:
        raise UsageError(f"--service {reach.service!r} is not NAMESPACE/[SCHEME:]NAME:PORT")
    path = f"/api/v1/namespaces/{quote(namespace)}/services/{quote(service, safe=':')}/proxy"
    return identity.server + path


def _headers(reach: TenantAccess, identity: Identity, token: str) -> Mapping[str, str]:
    if reach.server is not None:
        return {"Authorization": f"Bearer {token}"}
    headers = {TOKEN_HEADER: token}
    if identity.authorization:
        headers["Authorization"] = identity.authorization
    return headers


def _tls(reach: TenantAccess, identity: Identity) -> ssl.SSLContext | None:
    if reach.server is None:
        return identity.tls
    return tls_context(reach.authority) if reach.server.startswith("https") else None


def _token_of(identity: Identity) -> str:
    scheme, _, token = identity.authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise UsageError(
            "the user of the kubeconfig has no bearer token, which the daemon asks for: give --token-file, "
            "for instance with what `kubectl create token ACCOUNT` prints, or --log"
        )
    return token


def _answer(what: str, body: bytes) -> TenantAnswer:
    try:
        return msgspec.json.decode(body, type=TenantAnswer)
    except UNDECODABLE as error:
        raise ClusterError(f"{what}: the answer cannot be read: {error}") from error


def _refusal_text(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=_Refusal)
    except UNDECODABLE:
        return "no reason given"
    return (found.error or found.message or "no reason given")[:500]
