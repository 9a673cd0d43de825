"""Credential plug-ins of a kubeconfig (`users[].user.exec`), run as client-go runs them.

Ours and not the client library's, which knows no time limit, leaves standard input open to them, takes
a token or a certificate but not both, and cannot tell them which cluster it is for.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.client.errors import UnreachableError
from events.errors import SettingsError

PLUGIN_SECONDS: Final = 60.0
"""A plug-in that takes longer is ended."""
STDERR_MAX: Final = 300
"""Characters that an error repeats of what a plug-in had to say."""
VERSIONS: Final = frozenset(
    {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}
)


class Credential(Struct, frozen=True):
    """What a plug-in answered."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires_ns: int | None = None
    """Nanoseconds since the Unix epoch; None for until the server refuses it."""


class _Variable(Struct):
    name: str
    value: str


class _Spec(Struct, rename="camel"):
    """`exec` of a kubeconfig's user."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class _Status(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(Struct, rename="camel"):
    api_version: str
    status: _Status | None = None


async def run_plugin(
    described: object, cluster: Mapping[str, object], folder: Path, environment: Mapping[str, str]
) -> Credential:
    """Run it and read its answer. A relative command with a slash is taken from the file's folder."""
    try:
        spec = msgspec.convert(described, _Spec)
    except msgspec.ValidationError as error:
        raise SettingsError(f"kubeconfig: exec: {error}") from error
    if spec.api_version not in VERSIONS:
        raise SettingsError(f"kubeconfig: exec: apiVersion {spec.api_version} is not known")
    command = str(folder / spec.command) if "/" in spec.command else spec.command
    output = await _output(spec, command, _environment(spec, cluster, environment))
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"plug-in {command}: its answer cannot be read: {error}") from error
    if answer.api_version != spec.api_version:
        raise UnreachableError(
            f"plug-in {command}: answered {answer.api_version}, asked for {spec.api_version}"
        )
    return _credential(command, answer.status or _Status())


def _credential(command: str, status: _Status) -> Credential:
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise UnreachableError(f"plug-in {command}: gave a certificate or a key without the other")
    if not status.token and not status.client_certificate_data:
        raise UnreachableError(f"plug-in {command}: gave neither a token nor a certificate")
    until = status.expiration_timestamp
    return Credential(
        token=status.token.strip(),
        certificate=status.client_certificate_data,
        key=status.client_key_data,
        expires_ns=int(until.timestamp()) * 1_000_000_000 if until is not None else None,
    )


def _environment(
    spec: _Spec, cluster: Mapping[str, object], environment: Mapping[str, str]
) -> dict[str, str]:
    """Ours, what the kubeconfig adds, and what is asked of it."""
    asked: dict[str, object] = {"interactive": False}
    if spec.provide_cluster_info:
        asked["cluster"] = {key: value for key, value in cluster.items() if key != "extensions"}
    request = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": asked}
    added = {one.name: one.value for one in spec.env or ()}
    info = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
    return {**environment, **added, **info}


async def _output(spec: _Spec, command: str, environment: dict[str, str]) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *(spec.args or ()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        hint = f"; {spec.install_hint}" if spec.install_hint else ""
        raise SettingsError(f"plug-in {command}: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise UnreachableError(
            f"plug-in {command}: no answer within {PLUGIN_SECONDS:g} s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        text = " ".join(complaint.decode("utf-8", errors="replace").split())[-STDERR_MAX:]
        raise UnreachableError(f"plug-in {command}: exit code {process.returncode}: {text}")
    return output
