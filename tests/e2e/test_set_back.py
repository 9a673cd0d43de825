"""A real API server whose etcd is restored from an older snapshot: revisions go back.

What was bound after the snapshot is bound no more, what was made is gone, and what was deleted is back.
"""

import asyncio
from typing import Final

from events.watch import WENT_BACK
from projections.kinds.pod import PODS
from tests.control_plane.api import Object
from tests.control_plane.manifests import pod
from tests.e2e.rig import Rig, is_running, node_of
from tests.e2e.test_trouble import SOON, plane_of

LOST: Final = 20
"""Pods made after the snapshot."""
NEW: Final = 12
SOON_SECONDS: Final = 30.0


async def test_a_server_that_is_set_back_under_a_running_daemon_is_listed_again(rig: Rig) -> None:
    """Found when the watches are opened again; new pods are bound soon, and the log knows what there is."""
    plane = plane_of(rig)
    await rig.add_nodes(6)
    daemon = await rig.started(None, **SOON)
    for index in range(4):
        await rig.pod(f"kept-{index}")
    await rig.until_running(4)
    await rig.pod("half", cards=1)
    kept = await asyncio.to_thread(plane.snapshot)
    for index in range(LOST):
        await rig.pod(f"lost-{index}")
    await rig.until_running(5 + LOST)
    rig.kubelet.forget()
    await asyncio.to_thread(plane.restore, kept)
    for index in range(NEW):
        await made(rig, f"new-{index}")
    await rig.until(lambda found: all_run(found, 5 + NEW), seconds=SOON_SECONDS)
    await daemon.until_ready()
    verdict = await rig.judged(daemon)
    assert verdict.closes[WENT_BACK] >= 5


async def test_a_server_that_was_set_back_and_passed_the_revision_unseen_is_listed_again(
    rig: Rig,
) -> None:
    """The daemon was away meanwhile: the revision in its log means something else by now."""
    plane = plane_of(rig)
    await rig.add_nodes(6)
    daemon = await rig.started(None, **SOON)
    for index in range(4):
        await rig.pod(f"kept-{index}")
    await rig.until_running(4)
    kept = await asyncio.to_thread(plane.snapshot)
    for index in range(LOST):
        await rig.pod(f"lost-{index}")
    running = await rig.until_running(4 + LOST)
    highest = max(int(one["metadata"]["resourceVersion"]) for one in running)
    await rig.settle(daemon)
    await daemon.stop()
    rig.kubelet.forget()
    await asyncio.to_thread(plane.restore, kept)
    for index in range(NEW):
        await made(rig, f"new-{index}")
    await pass_revision(rig, highest + 50)
    await daemon.start()
    await daemon.until_ready()
    await rig.until(lambda found: all_run(found, 4 + NEW), seconds=SOON_SECONDS)
    verdict = await rig.judged(daemon)
    assert verdict.closes[WENT_BACK] >= 5


async def made(rig: Rig, name: str) -> None:
    """A pod, from a server that may have only just begun."""
    async with asyncio.timeout(SOON_SECONDS):
        while True:
            try:
                await rig.pod(name)
            except AssertionError as error:
                if "AlreadyExists" in str(error):
                    return
                await asyncio.sleep(0.2)
            else:
                return


async def pass_revision(rig: Rig, revision: int) -> None:
    """Others write until the server is beyond a revision that it had before."""
    while True:
        manifest = pod(rig.namespace, "writes", schedulerName="nobody")
        manifest["metadata"].pop("name")
        manifest["metadata"]["generateName"] = "writes-"
        written = await rig.api.create(PODS, manifest)
        path = PODS.object_path(written["metadata"]["name"], rig.namespace)
        (await rig.api.delete(path, {"gracePeriodSeconds": 0})).expect(200)
        if int(written["metadata"]["resourceVersion"]) > revision:
            return


def all_run(found: list[Object], count: int) -> bool:
    """Whether so many pods run, and there are no others."""
    ours = [one for one in found if one["spec"]["schedulerName"] != "nobody"]
    return len(ours) == count and all(is_running(one) and node_of(one) for one in ours)
