"""The real controllers of LeaderWorkerSet, JobSet and Kueue beside the test control plane, with their definitions and webhooks.

Each is a program of its own (tests/programs) that answers webhooks on loopback, as no Service routes anything here. Its definitions
and webhook manifests are those of its module.
"""

import base64
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trustme
import yaml
from msgspec import Struct

from projections.api_resource import Resource
from tests.control_plane.api import Api, Object
from tests.control_plane.program import free_ports
from tests.control_plane.setup import define_resources
from tests.programs.build import module_folder, program

START_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
SHOWN: Final = 3_000
ADMISSION: Final = "admissionregistration.k8s.io"
MUTATING: Final = Resource(
    "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ADMISSION, is_namespaced=False
)
VALIDATING: Final = Resource(
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    ADMISSION,
    is_namespaced=False,
)
WRAPPER: Final = '"$@" </dev/null & cat >/dev/null; kill -9 $!'
"""Runs a program until standard input ends, so that it does not outlive the tests however those die."""


IN_OWN_ETC: Final = 'mount --bind "$0" /etc && exec "$@"'
"""Runs a program with a folder in place of /etc, in mount and user namespaces of its own."""


class WorkloadController(Struct, frozen=True):
    """One program: where its manifests are within its module, and what its configuration adds to the common part."""

    name: str
    module: str
    definitions: str
    webhooks: str
    config_kind: str
    config: Mapping[str, Any] = {}
    pod_selector: Mapping[str, Any] = {}
    """`objectSelector` of its webhooks for pods; all pods without one."""
    etc_certificate: str = ""
    """Where it reads a certificate from whatever its configuration says, below /etc; empty where it does not."""
    kept_webhooks: frozenset[str] = frozenset()
    """Paths of the webhooks that are registered; all without any. Those of kinds that are not defined here would only cost time."""


LEADER_WORKER_SET: Final = WorkloadController(
    name="lws",
    module="sigs.k8s.io/lws",
    definitions="config/crd/bases",
    webhooks="config/webhook/manifests.yaml",
    config_kind="config.lws.x-k8s.io/v1alpha1",
    config={"gangSchedulingManagement": {"schedulerProvider": "volcano"}},
    pod_selector={
        "matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]
    },
)
JOB_SET: Final = WorkloadController(
    name="jobset",
    module="sigs.k8s.io/jobset",
    definitions="config/components/crd/bases",
    webhooks="config/components/webhook/manifests.yaml",
    config_kind="config.jobset.x-k8s.io/v1alpha1",
    pod_selector={
        "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
    },
)
KUEUE: Final = WorkloadController(
    name="kueue",
    module="sigs.k8s.io/kueue",
    definitions="config/components/crd/bases",
    webhooks="config/components/webhook/manifests.yaml",
    config_kind="config.kueue.x-k8s.io/v1beta2",
    config={
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "featureGates": {"VisibilityOnDemand": False},
    },
    pod_selector={"matchExpressions": [{"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}]},
    etc_certificate="kueue/metrics/certs",
    kept_webhooks=frozenset(
        f"/{verb}-{path}"
        for verb in ("mutate", "validate")
        for path in (
            "-v1-pod",
            "batch-v1-job",
            "kueue-x-k8s-io-v1beta2-clusterqueue",
            "kueue-x-k8s-io-v1beta2-resourceflavor",
            "kueue-x-k8s-io-v1beta2-workload",
        )
    ),
)


class ControllerError(Exception):
    """The controller ended, or was not ready in time."""


async def install(
    controller: WorkloadController, api: Api, port: int, authority: trustme.CA
) -> None:
    """Create the definitions and the webhook configurations, which call the program on a port of the loopback."""
    module = module_folder(controller.module, controller.name)
    definitions = [
        one
        for path in sorted((module / controller.definitions).glob("*.yaml"))
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if one
    ]
    await define_resources(api, definitions)
    text = (module / controller.webhooks).read_text(encoding="utf-8")
    for manifest in yaml.safe_load_all(text):
        resource = next(one for one in (MUTATING, VALIDATING) if one.kind == manifest["kind"])
        manifest["metadata"]["name"] = f"{controller.name}-{manifest['metadata']['name']}"
        manifest["webhooks"] = [
            _on_loopback(controller, one, port, authority)
            for one in manifest["webhooks"]
            if not controller.kept_webhooks
            or one["clientConfig"]["service"]["path"] in controller.kept_webhooks
        ]
        await api.apply(resource, manifest)


def _on_loopback(
    controller: WorkloadController, webhook: Object, port: int, authority: trustme.CA
) -> Object:
    path = webhook["clientConfig"]["service"]["path"]
    bundle = authority.cert_pem.bytes()
    found = dict(webhook)
    found["clientConfig"] = {
        "url": f"https://127.0.0.1:{port}{path}",
        "caBundle": base64.b64encode(bundle).decode(),
    }
    if path.endswith("-v1-pod"):
        found["objectSelector"] = controller.pod_selector
    return found


def write_certificate(authority: trustme.CA, folder: Path) -> None:
    """Write a certificate for the loopback and its key, as programs of controller-runtime read them."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(folder / "tls.crt")


@contextmanager
def at_work(
    controller: WorkloadController, kubeconfig: Path, folder: Path, port: int, authority: trustme.CA
) -> Iterator[None]:
    """Run the program until the block ends; its webhooks answer from the beginning of the block."""
    folder.mkdir(parents=True)
    write_certificate(authority, folder)
    (probe,) = free_ports(1)
    config = {
        "apiVersion": controller.config_kind,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probe}"},
        "metrics": {"bindAddress": "0"},
        **controller.config,
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    command = ["sh", "-c", WRAPPER, controller.name, program(controller.name), f"--config={path}"]
    if controller.etc_certificate:
        write_certificate(authority, folder / "etc" / controller.etc_certificate)
        command = ["unshare", "-rm", "sh", "-c", IN_OWN_ETC, str(folder / "etc"), *command]
    log = folder / "program.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - a pinned program, with our own arguments
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            process_group=0,
        )
    try:
        _until_listening(process, port, log)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _until_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(round(START_SECONDS / POLL_SECONDS)):
        try:
            socket.create_connection(("127.0.0.1", port), POLL_SECONDS).close()
            return
        except OSError:
            try:
                code = process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            raise ControllerError(f"ended with {code}: {_shown(log)}") from None
    raise ControllerError(f"not ready in {START_SECONDS} s: {_shown(log)}")


def _shown(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-SHOWN:]
