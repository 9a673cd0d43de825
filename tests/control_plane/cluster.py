"""The cluster that tests run on: a control plane of our own, or the one that is named.

`MUSTER_TEST_KUBECONFIG` names another cluster, whose admin the current context is. Muster's definitions
and roles are then applied there, and its namespace is left behind.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml
from msgspec import Struct

from tests.control_plane import build
from tests.control_plane.api import Api
from tests.control_plane.plane import ControlPlane
from tests.control_plane.setup import NAMESPACE, admit, define

KUBECONFIG: Final = "MUSTER_TEST_KUBECONFIG"


class Cluster(Struct, frozen=True):
    """Two ways in. `plane` is there where the cluster is ours to kill."""

    admin: Path
    """A kubeconfig of someone who may do everything."""
    muster: Path
    """A kubeconfig of muster's account, which may do what its roles say."""
    plane: ControlPlane | None = None


@contextmanager
def prepared(*, has_controllers: bool = True) -> Iterator[Cluster]:
    """A cluster with muster's definitions and roles; a skip, with its reason, where there is none."""
    named = os.environ.get(KUBECONFIG)
    if named:
        with tempfile.TemporaryDirectory(prefix="muster-cluster-") as folder:
            yield _prepared(Path(named), Path(folder), None)
        return
    with own_plane(has_controllers=has_controllers) as cluster:
        yield cluster


@contextmanager
def own_plane(
    *, has_controllers: bool = True, folder: Path | None = None, is_audited: bool = False
) -> Iterator[Cluster]:
    """A control plane of our own, which may be killed; in a new folder, which goes with it."""
    binary = _binary()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="muster-control-plane-"))
    else:
        folder = folder.resolve()
        folder.mkdir(parents=True)
    plane = ControlPlane(binary, folder, is_audited=is_audited)
    try:
        plane.start()
        if has_controllers:
            plane.start_controllers()
        yield _prepared(plane.admin, folder, plane)
    finally:
        plane.close()


def _binary() -> Path:
    """The binary; never built here, as that takes minutes."""
    binary = build.location()
    if binary.exists():
        return binary
    has_go = shutil.which("go") is not None
    make = "`make control-plane` builds it" if has_go else "and there is no Go to build it with"
    reason = f"no control plane to test with: it is not built, {make}"
    if has_go and os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"{reason}; {KUBECONFIG} may name another cluster")


def _prepared(admin: Path, folder: Path, plane: ControlPlane | None) -> Cluster:
    """In a loop of its own, whether or not the caller is in one."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(lambda: asyncio.run(_prepare(admin, folder, plane))).result()


async def _prepare(admin: Path, folder: Path, plane: ControlPlane | None) -> Cluster:
    async with Api.of(admin) as api:
        await define(api)
        token = await admit(api)
    muster = folder / "muster.yaml"
    muster.write_text(json.dumps(_with_token(admin, token), indent=1))
    return Cluster(admin, muster, plane)


def _with_token(kubeconfig: Path, token: str) -> object:
    """A kubeconfig for the same server, with muster's token and namespace."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for context in config["contexts"]:
        context["context"] |= {"user": "muster", "namespace": NAMESPACE}
    return {**config, "users": [{"name": "muster", "user": {"token": token}}]}
