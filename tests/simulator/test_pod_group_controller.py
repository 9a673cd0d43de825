"""Volcano's podgroup controller makes the groups that the scheduler would make by itself."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from events.normalize import Json, JsonObject
from simulator.manifest_fields import section
from simulator.scenario import parse_scenario
from tests.example_count import examples
from tests.scenarios.play import play
from tests.simulator.builders import seen, simulated

CONTROLLER = "podgroup_controller: true\n"
REPLICA_SET = """\
cluster:
  - {kind: Namespace, metadata: {name: default, annotations: {scheduling.volcano.sh/queue-name: q1}}}
  - kind: ReplicaSet
    metadata: {name: web, uid: O1, annotations: {volcano.sh/sla-waiting-time: 1h, other/key: x, volcano.sh/jdb-min-available: "2"}}
    spec:
      replicas: %d
      template:
        metadata: {labels: {volcano.sh/preemptable: "false"}, annotations: {volcano.sh/jdb-max-unavailable: "1", %s}}
        spec: {priorityClassName: high, containers: [{resources: {limits: {cpu: 1500m, nvidia.com/gpu: 2}}}]}
"""


def test_the_pods_of_one_owner_get_one_group_with_what_both_say() -> None:
    made = simulated(CONTROLLER + REPLICA_SET % (2, "a: b"))
    group = made.find("PodGroup", "default", "podgroup-O1") or {}
    assert section(group, "spec") == {
        "minMember": 1,
        "minResources": {
            "count/pods": "1",
            "pods": "1",
            "cpu": "1500m",
            "requests.cpu": "1500m",
            "limits.cpu": "1500m",
            "nvidia.com/gpu": "2",
            "requests.nvidia.com/gpu": "2",
        },
        "queue": "q1",
        "priorityClassName": "high",
    }
    assert section(group, "metadata", "annotations") == {
        "volcano.sh/sla-waiting-time": "1h",
        "volcano.sh/jdb-max-unavailable": "1",
    }
    assert section(group, "metadata", "labels") == {"volcano.sh/preemptable": "false"}
    assert section(group, "status") == {"phase": "Pending"}
    [owner] = made.store.objects()["ReplicaSet"].values()
    assert section(group, "metadata")["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": section(owner, "metadata")["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    for name in ("web-0", "web-1"):
        pod = made.find("Pod", "default", name) or {}
        annotations = section(pod, "metadata", "annotations")
        assert annotations["scheduling.k8s.io/group-name"] == "podgroup-O1"
    assert len(made.store.objects()["PodGroup"]) == 1


def test_what_pods_say_of_the_network_is_asked_of_their_group() -> None:
    text = "volcano.sh/network-topology-mode: hard, volcano.sh/network-topology-highest-tier: '2'"
    made = simulated(CONTROLLER + REPLICA_SET % (1, text))
    group = made.find("PodGroup", "default", "podgroup-O1") or {}
    assert section(group, "spec", "networkTopology") == {"mode": "hard", "highestTierAllowed": 2}


def test_a_pod_without_an_owner_has_a_group_for_as_long_as_it_is_there() -> None:
    made = simulated(
        CONTROLLER
        + "cluster: [{kind: Pod, metadata: {name: a, uid: u1, annotations: "
        + "{scheduling.volcano.sh/queue-name: q2}}, spec: {}}]\n"
        + "steps: [{at: 1s, delete: [{kind: Pod, name: a}]}]\n"
    )
    group = made.find("PodGroup", "default", "podgroup-u1") or {}
    assert section(group, "spec") == {
        "minMember": 1,
        "minResources": {"count/pods": "1", "pods": "1"},
        "queue": "q2",
    }
    made.advance(10**9)
    assert seen(made) == ["gone Pod/a Pending", "gone PodGroup/podgroup-u1 Pending"]


def test_pods_of_others_and_pods_with_a_group_are_left_alone() -> None:
    made = simulated(
        CONTROLLER
        + "cluster:\n"
        + "  - {kind: Pod, metadata: {name: a}, spec: {schedulerName: default-scheduler}}\n"
        + "  - {kind: Pod, metadata: {name: b, annotations: {scheduling.volcano.sh/group-name: g}}}\n"
        + "  - {kind: Pod, metadata: {name: c, labels: {scheduling.x-k8s.io/pod-group: g}}}\n"
    )
    assert not made.store.objects()["PodGroup"]


def test_without_the_key_there_is_no_such_controller() -> None:
    made = simulated(REPLICA_SET % (1, "a: b"))
    assert not made.store.objects()["PodGroup"]


def pod_spec(cpu: int, cards: int) -> JsonObject:
    """What a pod asks for: cpu, and cards where it has any."""
    limits: JsonObject = {"cpu": cpu, **({"nvidia.com/gpu": cards} if cards else {})}
    return {"containers": [{"resources": {"limits": limits}}]}


@st.composite
def workloads(draw: st.DrawFn) -> list[Json]:
    """Bare pods and ReplicaSets of cpu and cards, some of which ask for a gang, in two queues.

    A gang has as many pods as it needs: where it has fewer its group object reserves for those to come.
    """
    found: list[Json] = []
    for index in range(draw(st.integers(1, 6))):
        cards = draw(st.integers(0, 2))
        annotations: JsonObject = {"scheduling.volcano.sh/queue-name": draw(st.sampled_from("qr"))}
        if cards:
            annotations["volcano.sh/card.name"] = draw(st.sampled_from(["A", "B", "A|B"]))
        if draw(st.booleans()):
            annotations["muster.sh/run-seconds"] = str(draw(st.integers(1, 6)))
        spec = pod_spec(draw(st.integers(1, 4)), cards)
        name = f"w{index}"
        if draw(st.booleans()):
            meta: JsonObject = {"name": name, "uid": name, "annotations": annotations}
            found.append({"kind": "Pod", "metadata": meta, "spec": spec})
            continue
        replicas = draw(st.integers(1, 3))
        said: JsonObject = {}
        if draw(st.booleans()):
            said["scheduling.volcano.sh/group-min-member"] = str(draw(st.integers(1, replicas)))
        template: JsonObject = {"metadata": {"annotations": annotations}, "spec": spec}
        found.append(
            {
                "kind": "ReplicaSet",
                "metadata": {"name": name, "uid": name, "annotations": said},
                "spec": {"replicas": replicas, "template": template},
            }
        )
    return found


def cluster(quota: int, sizes: list[int]) -> list[Json]:
    """Nodes of two models, and two queues with as many cards of each."""
    found: list[Json] = []
    for index, size in enumerate(sizes):
        labels: JsonObject = {"nvidia.com/gpu.product": "AB"[index % 2]}
        amounts: JsonObject = {"cpu": 2 * size, "memory": "8Gi", "pods": 9, "nvidia.com/gpu": size}
        meta: JsonObject = {"name": f"n{index}", "labels": labels}
        found.append({"kind": "Node", "metadata": meta, "status": {"allocatable": amounts}})
    for name in "qr":
        limit: JsonObject = {"volcano.sh/card.quota": json.dumps({"A": quota, "B": quota})}
        spec: JsonObject = {"capability": {"cpu": 3 * quota}}
        queue: JsonObject = {"name": name, "annotations": limit}
        found.append({"kind": "Queue", "metadata": queue, "spec": spec})
    return found


POLICIES: list[JsonObject] = [
    {},
    {
        "actions": "enqueue, allocate, preempt, reclaim, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {
                "plugins": [
                    {"name": "overcommit"},
                    {"name": "drf"},
                    {"name": "predicates"},
                    {"name": "capacity-card"},
                    {"name": "binpack"},
                ]
            },
        ],
    },
]
"""The built-in policy, and one with all that looks at groups."""


def scaled(load: list[Json], at: int, replicas: int) -> list[Json]:
    """Every ReplicaSet of a load that is no gang gets as many pods, and then one."""
    names = [
        str(section(one, "metadata")["name"])
        for one in load
        if isinstance(one, dict) and section(one, "metadata").get("annotations") == {}
    ]
    return [
        {
            "at": f"{at + later}s",
            "patch": [
                {"kind": "ReplicaSet", "name": name, "merge": {"spec": {"replicas": count}}}
                for name in names
            ],
        }
        for later, count in ((0, replicas), (3, 1))
        if names
    ]


@settings(max_examples=examples(25), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    replicas=st.integers(0, 3),
    loads=st.lists(workloads(), min_size=1, max_size=2),
    quota=st.integers(1, 4),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_the_same_pods_are_placed_alike_with_and_without_it(
    policy: JsonObject, replicas: int, loads: list[list[Json]], quota: int, sizes: list[int]
) -> None:
    steps: list[Json] = []
    last: list[Json] = []
    for at, load in enumerate(loads):
        last = json.loads(json.dumps(load).replace('"w', f'"l{at}w'))
        steps.append({"at": f"{2 * at}s", "apply": last})
    text: JsonObject = {
        "scenario": "alike",
        "cluster": cluster(quota, sizes),
        "steps": [*steps, *scaled(last, 6, replicas)],
        "until": "30s",
        **({"policy": policy} if policy else {}),
    }
    told = []
    for is_there in (False, True):
        text["podgroup_controller"] = is_there
        document = asyncio.run(play(parse_scenario(json.dumps(text), "alike"))).result.document
        decided = document["decisions"]
        assert isinstance(decided, list)
        moves = [
            (one["at_seconds"], one["kind"], one["pod"], one["node"], one["code"])
            for one in decided
            if isinstance(one, dict)
        ]
        pods = document["pods"]
        assert isinstance(pods, dict)
        for one in pods.values():
            assert isinstance(one, dict)
            del one["annotations"]
        told.append((moves, pods, document["pod_groups"], document["queues"]))
    assert told[0] == told[1]
