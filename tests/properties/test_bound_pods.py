"""Annotations and labels that a tenant changes on its running pods change nothing for others.

The same history is played with such changes and without: every decision about the other tenant, to the device, is the same at
the same second, and so is what its queue is charged.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.privileges import ANNOTATION, EITHER, LABEL, POD, SECTIONS
from simulator.scenario import parse_scenario
from tests.example_count import examples
from tests.scenarios.play import Played, play

KEYS: Final = tuple(
    (row.key, form)
    for section in SECTIONS
    for row in section.rows
    if POD in row.kinds
    for form in (ANNOTATION, LABEL)
    if row.form in (form, EITHER)
)
"""Every annotation and label of a pod that changes a decision, and in which of both forms."""

SEVEN: Final = ",".join(f"Ascend910-{one}" for one in range(1, 8))
VALUES: Final = (
    *(
        "",
        "0",
        "1",
        "-1",
        "500",
        "1000",
        "0.5",
        "true",
        "false",
        "x",
        "A|B",
        "T4",
        "other",
        "theirs",
        "mine",
    ),
    *(
        "0-1",
        "0-1-2-3-4-5-6-7",
        "7",
        "Ascend910-0",
        "Ascend910-4,Ascend910-5",
        SEVEN,
        "Ascend910-9,Ascend910-9",
    ),
    *(
        "1-vir04",
        "0,1",
        "high",
        "yes",
        "card",
        "force",
        "large-model-schema",
        "2",
        "chip8-node8",
        "success",
    ),
    *(
        "GPU-0,NVIDIA,4000,30:;",
        "2000-01-01T00:00:00Z",
        "9" * 3000,
        ",".join(map(str, range(10_000))),
        "\u0660",
    ),
)
QUEUE: Final = "scheduling.volcano.sh/queue-name"
CARDS: Final = {"T4": 8, "T4/milli": 8000, "Ascend910": 16}


def node(
    name: str, labels: dict[str, str], notes: dict[str, str], amounts: dict[str, int]
) -> object:
    """A node; it names itself by a label."""
    there = {"cpu": 64, "memory": "64Gi", "pods": 110, **amounts}
    meta = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, **labels},
        "annotations": notes,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "status": {"capacity": there, "allocatable": there},
    }


def pod(
    name: str,
    namespace: str,
    on: str,
    notes: dict[str, str],
    amounts: dict[str, int],
    seconds: int = 0,
) -> dict[str, object]:
    """A pod that selects a node by name."""
    run = {"muster.sh/run-seconds": str(seconds)} if seconds else {}
    queue = "mine" if namespace == "tenant" else "theirs"
    asked = {"cpu": "100m", **amounts}
    selector = {
        "kubernetes.io/hostname": on,
        **({"accelerator-type": "module"} if on == "chips" else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {QUEUE: queue, **notes, **run},
        },
        "spec": {
            "nodeSelector": selector,
            "containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}],
        },
    }


BASES: Final = "{" + ",".join(f'"Ascend910-{one}":{{}}' for one in range(8)) + "}"
NODES: Final = (
    node("plain", {"nvidia.com/gpu.product": "T4"}, {}, {"nvidia.com/gpu": 4}),
    node(
        "shares",
        {
            "muster.sh/gpu-sharing": "true",
            "nvidia.com/gpu.product": "T4",
            "nvidia.com/gpu.memory": "16000",
        },
        {},
        {"nvidia.com/gpu": 4},
    ),
    node(
        "chips",
        {"accelerator": "huawei-Ascend910", "accelerator-type": "module"},
        {"baseDeviceInfos": BASES},
        {"huawei.com/Ascend910": 8},
    ),
)
CARD: Final = {"volcano.sh/card.name": "T4"}
ASKED: Final[dict[str, tuple[str, dict[str, str], dict[str, int]]]] = {
    "cpu": ("shares", {}, {}),
    "card": ("plain", CARD, {"nvidia.com/gpu": 1}),
    "half": (
        "shares",
        {"alibabacloud.com/gpu-milli": "500", "volcano.sh/card.name": "T4/milli"},
        {},
    ),
    "whole": ("shares", CARD, {"nvidia.com/gpu": 1}),
    "pair": ("chips", {"volcano.sh/card.name": "Ascend910"}, {"huawei.com/Ascend910": 2}),
    "chip": ("chips", {"volcano.sh/card.name": "Ascend910"}, {"huawei.com/Ascend910": 1}),
}
"""What pods ask for: node, annotations and resources."""

CHANGES: Final = st.lists(
    st.tuples(
        st.integers(20, 60),
        st.sampled_from(sorted(ASKED)),
        st.sampled_from(KEYS),
        st.sampled_from(VALUES),
    ),
    max_size=30,
)
OTHERS: Final = st.lists(
    st.tuples(st.integers(1, 70), st.sampled_from(sorted(ASKED)), st.sampled_from((0, 15, 40))),
    min_size=3,
    max_size=14,
)


def scenario(
    quotas: str,
    others: Sequence[tuple[int, str, int]],
    ends: Sequence[int],
    changes: Sequence[tuple[int, str, tuple[str, str], str]],
    confirm: str,
) -> dict[str, object]:
    """A tenant has a pod of each kind from the first seconds on; the other's come and go."""
    mine = [
        pod(f"mine-{one}", "tenant", on, notes, amounts, seconds)
        for (one, (on, notes, amounts)), seconds in zip(sorted(ASKED.items()), ends, strict=True)
    ]
    steps: list[dict[str, object]] = [
        {"at": "0s", "devices": [{"node": "chips", "report": {}, "confirm": confirm}]},
        {"at": "1s", "apply": mine},
    ]
    for number, (at, one, seconds) in enumerate(others):
        on, notes, amounts = ASKED[one]
        steps.append(
            {"at": f"{at}s", "apply": [pod(f"p-{number}", "other", on, notes, amounts, seconds)]}
        )
    for at, one, (key, form), value in changes:
        part = "annotations" if form == ANNOTATION else "labels"
        merge = {"metadata": {part: {key: value}}}
        patch = {"kind": "Pod", "namespace": "tenant", "name": f"mine-{one}", "merge": merge}
        steps.append({"at": f"{at}s", "patch": [patch]})
    steps.sort(key=lambda one: int(str(one["at"]).removesuffix("s")))
    annotations = {"volcano.sh/card.quota": msgspec.json.encode(CARDS).decode()}
    plugins = [
        ["priority", "gang", "conformance"],
        ["predicates", quotas, "nodeorder", "volcano-npu"],
    ]
    return {
        "scenario": "changes of running pods",
        "policy": {
            "actions": "enqueue, allocate, preempt, reclaim, backfill",
            "tiers": [{"plugins": [{"name": name} for name in tier if name]} for tier in plugins],
        },
        "cluster": [
            *NODES,
            *(
                {
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "Queue",
                    "metadata": {"name": name, "annotations": annotations},
                    "spec": {"weight": 1, "reclaimable": False},
                }
                for name in ("mine", "theirs")
            ),
        ],
        "steps": steps,
        "until": "90s",
    }


def played(document: dict[str, object]) -> Played:
    """The end of the history; its replay is equal, and its sums add up."""
    text = msgspec.json.encode(document).decode()
    found = asyncio.run(play(parse_scenario(text, "history.yaml")))
    assert found.divergence is None
    found.end.state.validate()
    return found


def about_others(one: Played) -> list[object]:
    """The decisions about pods of the other tenant, and what its queue is charged."""
    decisions = one.result.document["decisions"]
    assert isinstance(decisions, list)
    found: list[object] = []
    for entry in decisions:
        assert isinstance(entry, dict)
        subject = str(entry["pod"] or entry["pod_group"])
        if subject.startswith("other/") or entry["in_favour_of"]:
            found.append({key: value for key, value in entry.items() if key not in POSITIONS})
    return [*found, sorted(one.end.state.cluster.queues["theirs"].allocated.items())]


POSITIONS: Final = ("position", "cycle")


@pytest.mark.parametrize("quotas", ["capacity-card", "proportion", ""])
@given(
    others=OTHERS,
    ends=st.tuples(*[st.sampled_from((0, 0, 40)) for _ in ASKED]),
    changes=CHANGES,
    confirm=st.sampled_from(("0s", "5s", "never")),
)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_changes_of_running_pods_change_nothing_for_others(
    quotas: str,
    others: list[tuple[int, str, int]],
    ends: tuple[int, ...],
    changes: list[tuple[int, str, tuple[str, str], str]],
    confirm: str,
) -> None:
    plain = played(scenario(quotas, others, ends, [], confirm))
    changed = played(scenario(quotas, others, ends, changes, confirm))
    assert about_others(changed) == about_others(plain)
