"""One context of a kubeconfig, as kubernetes_asyncio reads it, and what that leaves out.

Of 36.1.0 this keeps: merging, contexts, tokens, passwords, OIDC, file or data, proxy-url and
tls-server-name. It adds what is missing there: a cluster without a user, white space around a token
file's token, and plug-ins that give a certificate as well, are bounded in time or want to know the cluster.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.kube_config import (
    ConfigNode,
    KubeConfigLoader,
    KubeConfigMerger,
    _cleanup_temp_files,
)

from daemon.cluster.client.credentials import Identity, Reading
from daemon.cluster.client.environment import checked_proxy, proxy_for
from daemon.cluster.client.exec_credential import Credential, run_plugin
from daemon.cluster.client.trust import tls_context
from daemon.limits import limits_of
from daemon.text_file import read_text
from events.errors import SettingsError, UsageError
from events.yaml_document import read_data

_TELLING: Final = (ConfigException, yaml.YAMLError, OSError, UnicodeError)
_MALFORMED: Final = (AssertionError, AttributeError, KeyError, TypeError, ValueError)
"""What the library meets where a part has another shape than it should."""


class _Loader(KubeConfigLoader):
    """The library's loader, with our own way of running plug-ins."""

    def __init__(self, config: ConfigNode, context: str | None, environ: Mapping[str, str]) -> None:
        super().__init__(config, active_context=context, config_base_path=None)
        self._environ = environ
        self.credential: Credential | None = None
        if self._user is None:
            # The library looks for a client certificate in it all the same.
            self._user = ConfigNode("user", {})

    async def load_from_exec_plugin(self) -> bool:
        assert self._user is not None
        folder = self._get_base_path(self._user.path)
        self.credential = await run_plugin(
            self._user["exec"].value, self.cluster, Path(folder), self._environ
        )
        if self.credential.token:
            self.token = f"Bearer {self.credential.token}"
        return True

    @property
    def cluster(self) -> Mapping[str, object]:
        """The context's, as it stands in the file."""
        assert self._cluster is not None
        cluster: Mapping[str, object] = self._cluster.value
        return cluster

    @property
    def namespace(self) -> str:
        """The context's."""
        assert self._current_context is not None
        return str(self._current_context["context"].safe_get("namespace") or "default")

    @property
    def files(self) -> tuple[Path, ...]:
        """What the context names: each may be replaced while we run."""
        assert self._user is not None
        assert self._cluster is not None
        folder = Path(self._get_base_path(self._cluster.path))
        named = [self._cluster.safe_get("certificate-authority")]
        keys = ("tokenFile", "client-certificate", "client-key")
        named += [self._user.safe_get(key) for key in keys]
        return tuple(folder / name for name in named if name)


async def read_context(
    files: tuple[Path, ...], context: str | None, environment: Mapping[str, str]
) -> Reading:
    """Read the files and run the plug-in if there is one. An error names the files."""
    configuration = Configuration()
    names = ", ".join(str(file) for file in files)
    try:
        # A kubeconfig of many clusters takes a while to parse.
        merged = await asyncio.to_thread(_merged, files)
        if merged.config is None:
            raise ConfigException("no such file")
        loader = _Loader(merged.config, context, environment)
        await loader.load_and_set(configuration)
        return _reading(loader, configuration, environment)
    except _TELLING as error:
        raise SettingsError(f"{names}: {' '.join(str(error).split())}") from error
    except _MALFORMED as error:
        raise SettingsError(f"{names}: a part of it is not as a kubeconfig has it") from error
    finally:
        # Keys that stood in the kubeconfig are on the disk for no longer than OpenSSL needs them there.
        _cleanup_temp_files()


def _merged(files: tuple[Path, ...]) -> KubeConfigMerger:
    """The files as the library merges them, each within the bounds of a YAML file."""
    for file in files:
        if file.exists():
            try:
                read_data(read_text(file), str(file), limits_of().yaml_nodes)
            except UsageError as error:
                raise SettingsError(str(error)) from error
    return KubeConfigMerger(os.pathsep.join(map(str, files)))


def _reading(
    loader: _Loader, configuration: Configuration, environment: Mapping[str, str]
) -> Reading:
    server = str(configuration.host).rstrip("/")
    if not server.startswith(("https://", "http://")) or "server" not in loader.cluster:
        raise ConfigException("clusters: server is not given as https://HOST:PORT")
    kind, _, token = str(configuration.api_key.get("BearerToken", "")).partition(" ")
    credential, named = loader.credential, configuration.proxy
    identity = Identity(
        server=server,
        authorization=f"{kind} {token.strip()}" if token.strip() else "",
        tls=_tls(loader, configuration) if server.startswith("https:") else None,
        server_name=configuration.tls_server_name or None,
        proxy=checked_proxy(named, "proxy-url") if named else proxy_for(server, environment),
        namespace=loader.namespace,
    )
    return Reading(
        identity=identity,
        files=loader.files,
        expires_ns=credential.expires_ns if credential is not None else None,
        has_plugin_certificate=credential is not None and bool(credential.certificate),
    )


def _tls(loader: _Loader, configuration: Configuration) -> ssl.SSLContext:
    authority = _path(configuration.ssl_ca_cert)
    is_verified = bool(configuration.verify_ssl)
    credential = loader.credential
    if credential is None or not credential.certificate:
        certificate, key = _path(configuration.cert_file), _path(configuration.key_file)
        return tls_context(authority, certificate, key, is_verified=is_verified)
    with TemporaryDirectory(prefix="muster-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_text(credential.certificate, encoding="utf-8")
        key.write_text(credential.key, encoding="utf-8")
        return tls_context(authority, certificate, key, is_verified=is_verified)


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
