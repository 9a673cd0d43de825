"""What operators set for jobs on a real API server: its kind is validated, muster reads it, and tenants cannot write it."""

from typing import Any

import pytest

from features.pools.override_kind import GROUP_OVERRIDES
from projections.job_option_keys import POSITION
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.e2e.rig import Rig
from tests.e2e.test_pools import CARDS, make, muster, started, until_jobs

WRONG: Any = [
    {"priority": 0},
    {"priority": 100},
    {"priority": "high"},
    {"weight": "-1"},
    {"weight": "NaN"},
    {"weight": "1e9"},
    {"maxSlots": -2},
    {"position": "first"},
    {"position": "9" * 30},
    {"uid": ""},
]


def manifest(name: str, **spec: object) -> Object:
    """A GroupOverride."""
    return {
        "apiVersion": GROUP_OVERRIDES.api_version,
        "kind": GROUP_OVERRIDES.kind,
        "metadata": {"name": name},
        "spec": {"namespace": "ml", "name": "g", "uid": "u", **spec},
    }


async def test_the_api_server_refuses_values_that_muster_could_not_use(rig: Rig) -> None:
    for number, wrong in enumerate(WRONG):
        made = manifest(f"wrong-{number}.{rig.namespace}", **wrong)
        assert (await rig.api.post(GROUP_OVERRIDES.path, made)).status == 422, wrong
    missing = manifest(f"missing.{rig.namespace}")
    del missing["spec"]["uid"]
    assert (await rig.api.post(GROUP_OVERRIDES.path, missing)).status == 422


@pytest.mark.parametrize("may_state", [False, True])
async def test_an_operator_moves_a_job_and_a_position_of_its_own_counts_if_permitted(
    rig: Rig, may_state: bool
) -> None:
    await rig.add_nodes(1, CARDS)
    daemon = await started(rig, position=may_state)
    await make(rig, "holds", cards=CARDS, group="holds", kind="NOTEBOOK")
    await rig.until(lambda found: all(one["spec"].get("nodeName") for one in found))
    for name in ("a", "b", "c"):
        await rig.group(name, least=1)
        await make(rig, f"{name}-0", cards=1, pod_group=name)
    first: Object = {"metadata": {"annotations": {POSITION: "-1"}}}
    (await rig.api.patch(POD_GROUPS.object_path("c", rig.namespace), first)).expect(200)

    def order(*names: str) -> list[str]:
        return [f"{rig.namespace}/{name}" for name in ("holds", *names)]

    stated = ("c", "a", "b") if may_state else ("a", "b", "c")
    await until_jobs(
        daemon,
        lambda jobs: [one.job for one in jobs if one.job != order()[0]] == order(*stated)[1:],
    )
    said = await muster(
        rig, "group", "move", f"{rig.namespace}/b", "--ahead-of", f"{rig.namespace}/a"
    )
    assert "queue position" in said
    moved = ("c", "b", "a") if may_state else ("b", "a", "c")
    await until_jobs(
        daemon,
        lambda jobs: [one.job for one in jobs if one.job != order()[0]] == order(*moved)[1:],
    )
    assert "in force" in await muster(rig, "group", "overrides")
    await muster(rig, "group", "reset", f"{rig.namespace}/b")
    await until_jobs(
        daemon,
        lambda jobs: [one.job for one in jobs if one.job != order()[0]] == order(*stated)[1:],
    )
