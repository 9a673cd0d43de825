"""What random histories are made of: nodes, queues, groups and pods, small enough to collide."""

from typing import TypeAlias

import msgspec
from hypothesis import strategies as st

from events.normalize import JsonObject

Body: TypeAlias = JsonObject
Shape: TypeAlias = tuple[JsonObject, JsonObject]
"""Metadata and body."""
Gang: TypeAlias = tuple[Body, Shape, int]
"""The body of a PodGroup, its equal pods, and how many they are."""

CARD = "volcano.sh/card.name"
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
QUOTA = "volcano.sh/card.quota"
GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g"
SHARE = "nvidia.com/gpu.shared"
SLICED = "A/mig-1g-mixed"
SHARED = "A/mps-8g*1/2"

node_names = st.sampled_from(["n1", "n2", "n3", "n4"])
queue_names = st.sampled_from(["default", "qa", "qb"])
group_names = st.sampled_from(["g1", "g2", "g3"])
pod_names = st.sampled_from([f"p-{index}" for index in range(12)])
gang_names = st.sampled_from(["j1", "j2", "j3", "j4"])
any_pod_names = pod_names | st.builds("{}-{}".format, gang_names, st.integers(0, 3))

POLICIES = (
    b'{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},{"name":"gang"}]},'
    b'{"plugins":[{"name":"predicates"},{"name":"capacity-card"},{"name":"nodeorder"},{"name":"binpack"}]}]}',
    b'{"actions":"enqueue, allocate, backfill","tiers":[{"plugins":[{"name":"priority"},{"name":"gang"}]},'
    b'{"plugins":[{"name":"predicates"},{"name":"capacity"},{"name":"binpack"}]}]}',
    b'{"actions":"allocate, backfill","tiers":[{"plugins":[{"name":"gang"},{"name":"predicates"},'
    b'{"name":"capacity-card","arguments":{"unnamedCardPolicy":"infer","cardUnlimitedCpuMemory":true}}]}]}',
    b'{"actions":"enqueue, allocate, preempt, reclaim, backfill","tiers":[{"plugins":[{"name":"priority"},'
    b'{"name":"gang","enablePreemptable":false},{"name":"conformance"}]},{"plugins":[{"name":"drf"},'
    b'{"name":"predicates"},{"name":"capacity"},{"name":"nodeorder"}]}]}',
    b'{"actions":"allocate, preempt, reclaim","tiers":[{"plugins":[{"name":"priority","enableJobStarving":'
    b'true},{"name":"gang","enableJobStarving":false,"enableReclaimable":false,"enablePreemptable":false},'
    b'{"name":"conformance"},{"name":"predicates"},{"name":"capacity-card"}]}]}',
    b'{"actions":"allocate, reclaim, preempt","tiers":[{"plugins":[{"name":"gang"},{"name":"conformance"},'
    b'{"name":"drf","enablePreemptable":false},{"name":"predicates"},{"name":"capacity-card"}]}]}',
    b'{"actions":"enqueue, allocate, reclaim, backfill","tiers":[{"plugins":[{"name":"priority"},'
    b'{"name":"gang"}]},{"plugins":[{"name":"sla","arguments":{"sla-waiting-time":"5s"}},'
    b'{"name":"overcommit"},{"name":"drf"},{"name":"predicates"},{"name":"capacity",'
    b'"enableHierarchy":true,"arguments":{"ancestorReclaimLevel":1}}]}]}',
    b'{"actions":"enqueue, allocate, preempt, reclaim","tiers":[{"plugins":[{"name":"sla","arguments":'
    b'{"sla-waiting-time":"9s"}}]},{"plugins":[{"name":"gang","enableReclaimable":false},'
    b'{"name":"conformance"}]},{"plugins":[{"name":"drf","enableHierarchy":true},{"name":"predicates"},'
    b'{"name":"capacity-card"}]}]}',
    b'{"actions":"enqueue, allocate, reclaim, backfill","tiers":[{"plugins":[{"name":"gang"},'
    b'{"name":"overcommit"}]},{"plugins":[{"name":"predicates"},{"name":"proportion"}]}]}',
    b'{"actions":"enqueue, allocate, gangpreempt, gangreclaim, backfill","tiers":[{"plugins":[{"name":'
    b'"priority"},{"name":"gang"},{"name":"conformance"}]},{"plugins":[{"name":"overcommit"},{"name":'
    b'"predicates"},{"name":"capacity"},{"name":"binpack"}]}]}',
    b'{"actions":"enqueue, allocate, backfill, gangpreempt, preempt","tiers":[{"plugins":[{"name":"priority"},'
    b'{"name":"gang","enablePreemptable":false},{"name":"predicates"},{"name":"capacity-card"}]}],'
    b'"configurations":[{"name":"gangpreempt","arguments":{"allowWholeBundle":false}},{"name":"preempt",'
    b'"arguments":{"enableTopologyAwarePreemption":true,"minCandidateNodesPercentage":100}}]}',
)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    """Metadata and body of a node: two card models, whole, cut or shared, or none."""
    card = draw(st.sampled_from(["A", "A", "B", ""]))
    allocatable: JsonObject = {
        "cpu": str(draw(st.integers(1, 8))),
        "memory": "8Gi",
        "pods": draw(st.sampled_from(["3", "110", "110"])),
    }
    labels: JsonObject = {}
    if card:
        allocatable[GPU] = draw(st.sampled_from(["0", "1", "2", "4", "4"]))
        labels["nvidia.com/gpu.product"] = card
        labels["nvidia.com/gpu.memory"] = "8192"
        labels["nvidia.com/gpu.replicas"] = draw(st.sampled_from(["2", "2", "2", "x"]))
        cut: JsonObject = draw(
            st.sampled_from([{}, {}, {SLICE: "4"}, {SLICE: "2", SHARE: "4"}, {SLICE: "0"}])
        )
        allocatable.update(cut)
    if draw(st.integers(0, 7)) == 0:
        labels["nvidia.com/xpu.product"] = "C"
    labels["zone"] = draw(st.sampled_from(["a", "b", "b"]))
    spec: JsonObject = {"unschedulable": draw(st.sampled_from([False] * 5 + [True]))}
    return {"labels": labels}, {"spec": spec, "status": {"allocatable": allocatable}}


@st.composite
def queues(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    """Metadata and body of a queue."""
    names = ("A", "B", SLICED, SHARED)
    quota = msgspec.json.encode({name: draw(_counts) for name in names}).decode()
    capability: JsonObject = draw(
        st.sampled_from([{}, {}, {}, {"cpu": "4"}, {"cpu": "6", GPU: "3"}, {"memory": "4Gi"}])
    )
    annotations: JsonObject = {QUOTA: draw(st.sampled_from([quota] * 7 + ["{"]))}
    if path := draw(st.sampled_from(["", "", "root/x/y", "root/x"])):
        annotations["volcano.sh/hierarchy"] = path
        annotations["volcano.sh/hierarchy-weights"] = draw(st.sampled_from(["1/2/3", "1/2", "x"]))
    guarantee: JsonObject = draw(st.sampled_from([{}, {}, {"cpu": "1"}]))
    deserved: JsonObject = draw(
        st.sampled_from([{}, {"cpu": "2"}, {"cpu": "4"}, {"cpu": "1", GPU: "2"}])
    )
    spec: JsonObject = {
        "priority": draw(st.integers(0, 1)),
        "capability": capability,
        "deserved": deserved,
        "guarantee": {"resource": guarantee},
        "weight": draw(st.integers(0, 3)),
        "parent": draw(st.sampled_from(["", "", "", "", "qa", "qb", "root", "nowhere"])),
    }
    state = draw(st.sampled_from(["Open"] * 7 + ["Closed"]))
    return {"annotations": annotations}, {"spec": spec, "status": {"state": state}}


def plain_nodes() -> st.SearchStrategy[Shape]:
    """Nodes with room for several pods, and cards in all forms."""
    return st.builds(
        _plain_node, st.sampled_from(["A", "A", "B"]), st.sampled_from([2, 4]), st.booleans()
    )


def _plain_node(card: str, count: int, is_cut: bool) -> Shape:
    labels: JsonObject = {
        "nvidia.com/gpu.product": card,
        "nvidia.com/gpu.memory": "8192",
        "nvidia.com/gpu.replicas": "2",
        "zone": "a",
    }
    amounts: JsonObject = {"cpu": "6", "memory": "8Gi", "pods": "110", GPU: str(count)}
    if is_cut:
        amounts |= {SLICE: "4", SHARE: "4"}
    return {"labels": labels}, {"spec": {}, "status": {"allocatable": amounts}}


def plain_queues() -> st.SearchStrategy[Shape]:
    """Open queues with quotas of everything, and nothing else about them."""
    names = ("A", "B", SLICED, SHARED)
    counts = st.sampled_from([1, 2, 4, 8])
    return st.fixed_dictionaries(dict.fromkeys(names, counts)).map(_plain_queue)


def _plain_queue(quota: dict[str, int]) -> Shape:
    annotation = msgspec.json.encode(quota).decode()
    return {"annotations": {QUOTA: annotation}}, {"spec": {"weight": 1}}


@st.composite
def groups(draw: st.DrawFn) -> JsonObject:
    """The body of a PodGroup."""
    spec: JsonObject = {
        "minMember": draw(st.integers(0, 3)),
        "queue": draw(queue_names),
        "priorityClassName": draw(st.sampled_from(["", "high"])),
    }
    least: JsonObject = draw(st.sampled_from([{}, {"cpu": "2"}, {"cpu": "1", GPU: "2"}]))
    if least:
        spec["minResources"] = least
    if draw(st.booleans()):
        spec["minTaskMember"] = {"w": draw(st.integers(0, 2))}
    return {"spec": spec}


@st.composite
def pods(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    """Metadata and body of a pod of ours."""
    annotations: JsonObject = {QUEUE: draw(queue_names), "volcano.sh/task-spec": draw(_roles)}
    labels: JsonObject = {}
    requests: JsonObject = {"cpu": draw(st.sampled_from(["0", "1", "1", "2"]))}
    if cards := draw(st.integers(0, 3)):
        requests[GPU] = str(cards)
        annotations[CARD] = draw(st.sampled_from(["A", "B", "A|B", "B|A", "A|X", ""]))
        if draw(st.integers(0, 3)) == 0:
            part, name = draw(st.sampled_from([(SLICE, SLICED), (SHARE, SHARED)]))
            requests[part] = str(cards)
            annotations[CARD] = draw(st.sampled_from([name, name, "A", ""]))
            if draw(st.integers(0, 3)):
                del requests[GPU]
    match draw(st.integers(0, 3)):
        case 0:
            annotations[GROUP] = draw(group_names)
        case 1:
            labels["pod-group.scheduling.sigs.k8s.io/name"] = draw(group_names)
            labels["pod-group.scheduling.sigs.k8s.io/min-available"] = draw(
                st.sampled_from(["1", "2", "3"])
            )
        case _:
            pass
    spec: JsonObject = {
        "schedulerName": draw(st.sampled_from(["muster"] * 7 + ["other"])),
        "priority": draw(st.integers(0, 2)),
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    if draw(st.integers(0, 8)) == 0:
        spec["schedulingGates"] = [{"name": "hold"}]
    labels["app"] = draw(_apps)
    spec.update(draw(demands()))
    meta: JsonObject = {"annotations": annotations, "labels": labels}
    status: JsonObject = {"phase": "Pending"}
    if draw(st.integers(0, 7)) == 0:
        status["nominatedNodeName"] = draw(node_names)
    return meta, {"spec": spec, "status": status}


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """A gang that a node or two could take."""
    size = draw(st.integers(1, 4))
    spec: JsonObject = {
        "minMember": draw(st.integers(1, size)),
        "queue": draw(st.sampled_from(["qa", "qa", "qb", "default"])),
        "priorityClassName": draw(st.sampled_from(["", "high"])),
    }
    requests: JsonObject = {"cpu": draw(st.sampled_from(["0", "1", "2", "3"]))}
    annotations: JsonObject = {}
    name, resource = draw(
        st.sampled_from(
            [
                ("A", GPU),
                ("B", GPU),
                ("A|B", GPU),
                ("B|A", GPU),
                (SLICED, SLICE),
                (SHARED, SHARE),
                ("", ""),
                ("", ""),
            ]
        )
    )
    if name:
        annotations[CARD], requests[resource] = name, str(draw(st.integers(1, 2)))
    if draw(st.booleans()):
        spec["minResources"] = {one: str(int(str(of)) * size) for one, of in requests.items()}
    pod: JsonObject = {
        "schedulerName": "muster",
        "priority": draw(st.integers(0, 2)),
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    meta: JsonObject = {"annotations": annotations, "labels": {"app": draw(_apps)}}
    return {"spec": spec}, (meta, {"spec": pod, "status": {"phase": "Pending"}}), size


@st.composite
def demands(draw: st.DrawFn) -> JsonObject:
    """What a pod asks about other pods: mostly nothing."""
    term: JsonObject = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": draw(_apps)}},
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wished = "preferredDuringSchedulingIgnoredDuringExecution"
    match draw(st.integers(0, 14)):
        case 0:
            return {"affinity": {"podAffinity": {required: [term]}}}
        case 1:
            return {"affinity": {"podAntiAffinity": {required: [term]}}}
        case 2:
            weighted: JsonObject = {"weight": 5, "podAffinityTerm": term}
            kind = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
            return {"affinity": {kind: {wished: [weighted]}}}
        case 3:
            hard = draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
            return {
                "topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": hard}]
            }
        case _:
            return {}


_apps = st.sampled_from(["x", "y"])
_counts = st.sampled_from([0, 1, 2, 3, 4, 8])
_roles = st.sampled_from(["", "w", "m"])
