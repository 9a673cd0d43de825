"""A gang that fills its queue and loses pods gets them back in its own room, and reserves nothing beside it."""

import asyncio
import json
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from events.normalize import JsonObject
from projections.pod_groups import RUNS
from simulator.scenario import parse_scenario
from tests.example_count import examples
from tests.scenarios.play import play

QUOTAS: Final[tuple[list[JsonObject], ...]] = (
    [{"name": "capacity"}],
    [{"name": "proportion"}],
    [{"name": "overcommit", "arguments": {"overcommit-factor": 1}}],
    [{"name": "overcommit"}, {"name": "proportion"}],
    [{"name": "drf"}, {"name": "capacity"}],
    [{"name": "capacity-card"}],
)


@st.composite
def losses(draw: st.DrawFn) -> str:
    """A scenario: a gang with one pod on each node, whose nodes are cordoned and come back while a fresh pod waits."""
    size = draw(st.integers(2, 5))
    quota = draw(st.sampled_from(QUOTAS))
    lost = draw(st.sets(st.integers(1, size), min_size=1, max_size=size - 1))
    away, back = draw(st.integers(5, 20)), draw(st.integers(21, 60))
    rivals = draw(st.integers(0, 2))
    names = {"scheduling.k8s.io/group-name": "gang", "volcano.sh/card.name": "H100"}
    asks = {
        "containers": [
            {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 1, "nvidia.com/gpu": 8}}}
        ]
    }
    amounts = {"cpu": size, "nvidia.com/gpu": 8 * size}
    have = {"cpu": 1, "memory": "8Gi", "pods": 110, "nvidia.com/gpu": 8}
    cards = {"volcano.sh/card.quota": json.dumps({"H100": 8 * size})}
    cluster: list[object] = [
        {
            "kind": "Node",
            "metadata": {"name": "n{i}", "labels": {"nvidia.com/gpu.product": "H100"}},
            "status": {"allocatable": have},
            "count": size,
        },
        {
            "kind": "Queue",
            "metadata": {"name": "q", "annotations": cards},
            "spec": {"capability": amounts},
        },
        {
            "kind": "PodGroup",
            "metadata": {"name": "gang"},
            "spec": {"minMember": size, "queue": "q", "minResources": amounts},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "p-{i}", "annotations": names},
            "spec": asks,
            "count": size,
        },
    ]
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"r-{one}", "annotations": names},
            "spec": asks,
        }
        for one in sorted(lost)
    ]
    fresh = [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"rival-{one}",
                "annotations": {
                    "scheduling.volcano.sh/queue-name": "q",
                    "volcano.sh/card.name": "H100",
                },
            },
            "spec": asks,
        }
        for one in range(rivals)
    ]
    cordons: list[list[object]] = [
        [{"kind": "Node", "name": f"n{one}", "merge": {"spec": {"unschedulable": is_away}}}
         for one in range(1, size + 1)]
        for is_away in (True, False)
    ]  # fmt: skip
    steps: list[object] = [
        {"at": f"{away}s", "patch": cordons[0]},
        {"at": f"{away}s", "delete": [{"kind": "Pod", "name": f"p-{one}"} for one in sorted(lost)]},
        {"at": f"{away}s", "apply": pods},
        {"at": f"{back}s", "patch": cordons[1]},
    ]
    if fresh:
        steps.insert(3, {"at": f"{away + 1}s", "apply": fresh})
    plugins = [{"name": "priority"}, {"name": "gang"}]
    document = {
        "scenario": "a gang loses pods",
        "policy": {
            "actions": "enqueue, allocate, backfill",
            "tiers": [{"plugins": plugins}, {"plugins": [{"name": "predicates"}, *quota]}],
        },
        "cluster": cluster,
        "steps": steps,
        "until": f"{back + 20}s",
    }
    return json.dumps(document)


@given(document=losses())
@settings(max_examples=examples(25), deadline=None)
def test_a_gang_that_lost_pods_returns_when_its_nodes_do(document: str) -> None:
    played = asyncio.run(play(parse_scenario(document, "losses.yaml")))
    assert played.divergence is None
    cluster = played.end.state.cluster
    gang = cluster.groups["default/gang"]
    assert (gang.decided.phase, gang.counts.running) == (RUNS, gang.observed.min_available)
    assert not gang.reservation.inqueue
    assert all(not one.node for one in cluster.pods.values() if "rival" in one.key)
