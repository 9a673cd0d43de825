"""What kustomize makes of the folders under `deploy/kustomize`."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.checkout import ROOT

Manifest: TypeAlias = dict[str, Any]

FOLDER: Final = ROOT / "deploy/kustomize"
WHOLE: Final = ("base", "overlays/postgres", "overlays/shadow", "crds", "flow-control", "ascend")
"""What can be applied as it stands; a component needs one of the others."""
COMPONENTS: Final = ("monitoring",)


def rendered(folder: Path) -> list[Manifest]:
    """The objects of a folder; a skip with its reason where nothing can render it."""
    found = shutil.which("kustomize"), shutil.which("kubectl")
    if not any(found):
        pytest.skip("neither kustomize nor kubectl is on the PATH")
    command = [found[0], "build"] if found[0] else [found[1], "kustomize"]
    done = subprocess.run(  # noqa: S603 - a tool from the PATH on a folder of ours
        [str(word) for word in (*command, folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # A warning, such as for a field that is going away, is as bad as an error.
    assert (done.returncode, done.stderr) == (0, "")
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@cache
def shipped(name: str) -> list[Manifest]:
    """The objects of one of our folders."""
    return rendered(FOLDER / name)


def composed(
    folder: Path,
    base: str,
    namespace: str = "muster-system",
    components: tuple[str, ...] = COMPONENTS,
) -> list[Manifest]:
    """A folder of ours with components, in some namespace, as an operator would put it together."""
    # kustomize follows symbolic links and takes no absolute paths.
    ours = os.path.relpath(FOLDER, folder.resolve())
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [f"{ours}/{base}"],
        "components": [f"{ours}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return rendered(folder)


def one(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """The only object of a kind, or the one of this name."""
    found = [m for m in manifests if m["kind"] == kind and name in ("", m["metadata"]["name"])]
    assert len(found) == 1, (kind, name, [m["metadata"]["name"] for m in found])
    return found[0]
