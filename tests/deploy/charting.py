"""What Helm makes of the chart under `deploy/helm`."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.checkout import ROOT
from tests.control_plane.build import kubernetes_version
from tests.control_plane.setup import NAMESPACE
from tests.deploy.kustomizing import Manifest
from tests.programs.build import program

CHART: Final = ROOT / "deploy/helm/muster"
SECONDS: Final = 120
OF_HELM: Final = {
    "helm.sh/chart",
    "helm.sh/resource-policy",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "checksum/settings",
}
"""Labels and annotations that releases have and kustomize's objects do not."""


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What helm answers."""
    return subprocess.run(  # noqa: S603 - a pinned tool on files of ours
        [program("helm"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def options(values: dict[str, Any]) -> list[str]:
    """Values as options of helm."""
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]


def rendered(
    values: dict[str, Any], release: str = "muster", namespace: str = NAMESPACE
) -> list[Manifest]:
    """The objects of a release with these values."""
    version = kubernetes_version()
    place = ("--namespace", namespace, "--kube-version", version)
    done = helm("template", release, CHART, *place, *options(values))
    assert (done.returncode, done.stderr) == (0, "")
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@cache
def shipped(*switches: str) -> list[Manifest]:
    """The objects of a release in which these parts are created."""
    return rendered({f"{switch}.create": True for switch in switches})


def plain(found: Any) -> Any:
    """An object without what only Helm writes."""
    if isinstance(found, dict):
        kept = {key: plain(one) for key, one in found.items() if key not in OF_HELM}
        return {
            key: one
            for key, one in kept.items()
            if one or key not in ("labels", "annotations", "imagePullPolicy")
        }
    if isinstance(found, list):
        return [plain(one) for one in found]
    return found
