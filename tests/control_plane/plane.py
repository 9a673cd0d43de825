"""A control plane on loopback with keys of its own: etcd, the API server, and what else is asked for.

Nothing of it outlives the process that started it.
"""

import base64
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

from tests.control_plane.program import Program, ProgramError, free_ports

ETCD_SECONDS: Final = 30.0
SERVER_SECONDS: Final = 120.0
ASK_SECONDS: Final = 5.0
STARTS_MAX: Final = 3
"""Another process may take a port between its choice and its use."""

SWITCHED_OFF: Final = ("ServiceAccount", "TaintNodesByCondition")
"""Admission that needs a controller manager to lift what it asks for."""


class ControlPlane:
    """A cluster without machines. Its folder holds all it writes."""

    def __init__(self, binary: Path, folder: Path, *, is_audited: bool = False) -> None:
        self._binary = binary
        self._folder = folder
        self._token = secrets.token_hex(16)
        self.audit_log = folder / "audit.log" if is_audited else None
        """Every request that the API server answered, one JSON object a line; None if they are not logged."""
        self._programs: dict[str, Program] = {}
        self._etcd_port = self._peer_port = 0
        self.port = 0

    @property
    def url(self) -> str:
        """Where the API server is."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def admin(self) -> Path:
        """A kubeconfig of someone who may do everything."""
        return self._folder / "admin.yaml"

    def start(self) -> None:
        """Start etcd and the API server, and wait until it is ready."""
        subprocess.run(  # noqa: S603 - our own binary
            [self._binary, "key", self._folder / "service-account.key"],
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=ASK_SECONDS * 6,
        )
        (self._folder / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        for left in reversed(range(STARTS_MAX)):
            try:
                self._start()
                return
            except ProgramError:
                self.kill()
                if not left:
                    raise

    def pid(self, name: str) -> int:
        """Of one of the programs."""
        return self._programs[name].pid

    def kill(self) -> None:
        """End every program at once; the data stays."""
        while self._programs:
            self._programs.popitem()[1].kill()

    def close(self) -> None:
        """End every program and remove all that they wrote."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill_server(self) -> None:
        """Kill the API server; etcd goes on."""
        self._programs.pop("kube-apiserver").kill()

    def snapshot(self) -> Path:
        """Copy etcd's data while it stands still for a moment, as after a power failure."""
        kept = Path(tempfile.mkdtemp(prefix="etcd-", dir=self._folder))
        pid = self.pid("etcd")
        os.kill(pid, signal.SIGSTOP)
        try:
            shutil.copytree(self._folder / "etcd", kept, dirs_exist_ok=True)
        finally:
            os.kill(pid, signal.SIGCONT)
        return kept

    def restore(self, kept: Path) -> None:
        """Stop etcd and the API server, and start them on a copy: revisions go back to what they were.

        The controller manager, if there is one, is started again too: its own watches would be of the future.
        """
        has_controllers = "kube-controller-manager" in self._programs
        if has_controllers:
            self._programs.pop("kube-controller-manager").kill()
        self.kill_server()
        self._programs.pop("etcd").kill()
        data = self._folder / "etcd"
        shutil.rmtree(data)
        shutil.copytree(kept, data)
        self._start_etcd()
        self.start_server()
        if has_controllers:
            self.start_controllers()

    def start_server(self) -> None:
        """Start the API server, on the port and with the keys and data that it had."""
        server = self._run("kube-apiserver", *self._server_flags())
        server.until(self.is_ready, SERVER_SECONDS)

    def start_controllers(self, *flags: str) -> None:
        """Start the controller manager: jobs, deployments, garbage, budgets, node taints.

        Nodes need no heartbeat: there is no one to send it.
        """
        self._run(
            "kube-controller-manager",
            *("--kubeconfig", str(self.admin), "--leader-elect=false", "--secure-port=0"),
            *("--use-service-account-credentials=false", "--node-monitor-grace-period=24h"),
            *("--node-startup-grace-period=24h", "--kube-api-qps=500", "--kube-api-burst=500"),
            *("--service-account-private-key-file", str(self._folder / "service-account.key")),
            *flags,
        )

    def start_scheduler(self, *flags: str) -> None:
        """Start Kubernetes' own scheduler; `flags` say where its configuration is."""
        self._run("kube-scheduler", "--secure-port=0", *flags)

    def stop_scheduler(self) -> None:
        """End Kubernetes' own scheduler."""
        self._programs.pop("kube-scheduler").kill()

    def compact(self) -> int:
        """Make etcd forget every revision but the present one, which is returned.

        A watch or list from an older one then expires, as soon as the API server's own cache does not
        have it either: at once after a restart, or where the cache is off.
        """
        everything = {"key": _base64("\0"), "range_end": _base64("\0"), "count_only": True}
        header = self._ask_etcd("/v3/kv/range", everything)["header"]
        assert isinstance(header, dict)
        revision = int(header["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready to work."""
        context = ssl.create_default_context(cafile=None)
        certificate = self._folder / "keys" / "apiserver.crt"
        if not certificate.exists():
            return False
        context.load_verify_locations(certificate)
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=ASK_SECONDS, context=context)
        return _status(connection, "/readyz", {"Authorization": f"Bearer {self._token}"}) == 200

    def kubeconfig(self, name: str, token: str) -> Path:
        """Write a kubeconfig for someone with a token; JSON is YAML too."""
        path = self._folder / f"{name}.yaml"
        cluster = {
            "server": self.url,
            "certificate-authority": str(self._folder / "keys" / "apiserver.crt"),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "users": [{"name": name, "user": {"token": token}}],
        }
        path.write_text(json.dumps(content, indent=1))
        return path

    def _start(self) -> None:
        self.port, self._etcd_port, self._peer_port = free_ports(3)
        self._start_etcd()
        self.start_server()
        self.kubeconfig("admin", self._token)

    def _start_etcd(self) -> None:
        etcd = self._run(
            "etcd",
            *("--data-dir", str(self._folder / "etcd")),
            *("--client-url", f"http://127.0.0.1:{self._etcd_port}"),
            *("--peer-url", f"http://127.0.0.1:{self._peer_port}"),
        )
        etcd.until(self._is_etcd_ready, ETCD_SECONDS)

    def _run(self, name: str, *flags: str) -> Program:
        program = self._programs[name] = Program(self._binary, self._folder, name, *flags)
        program.start()
        return program

    def _server_flags(self) -> tuple[str, ...]:
        key = str(self._folder / "service-account.key")
        return (
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--cert-dir={self._folder / 'keys'}",
            f"--secure-port={self.port}",
            *("--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            "--service-account-issuer=https://control-plane.test",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16"),
            f"--disable-admission-plugins={','.join(SWITCHED_OFF)}",
            # Without its cache, what the compacted store no longer has is gone at once.
            "--watch-cache-sizes=podtemplates#0",
            *self._audit_flags(),
        )

    def _audit_flags(self) -> tuple[str, ...]:
        if self.audit_log is None:
            return ()
        policy = self._folder / "audit.yaml"
        document = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
        policy.write_text(json.dumps(document))
        return (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}")

    def _is_etcd_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._etcd_port, timeout=ASK_SECONDS)
        return _status(connection, "/health", {}) == 200

    def _ask_etcd(self, path: str, question: dict[str, object]) -> dict[str, object]:
        connection = HTTPConnection("127.0.0.1", self._etcd_port, timeout=ASK_SECONDS * 6)
        try:
            connection.request("POST", path, json.dumps(question))
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        assert reply.status == 200, f"etcd {path}: {reply.status} {body!r}"
        answer: dict[str, object] = json.loads(body)
        return answer


def _status(connection: HTTPConnection, path: str, headers: dict[str, str]) -> int:
    """Return the HTTP status of a probe; 0 without an answer."""
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
