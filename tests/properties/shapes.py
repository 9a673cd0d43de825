"""What random histories are made of: nodes, queues, groups and pods, small enough to collide."""

from typing import TypeAlias

from hypothesis import strategies as st

from events.normalize import JsonObject

Body: TypeAlias = JsonObject
Shape: TypeAlias = tuple[JsonObject, JsonObject]
"""Metadata and body."""

CARD = "volcano.sh/card.name"
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
QUOTA = "volcano.sh/card.quota"
GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g"

node_names = st.sampled_from(["n1", "n2", "n3", "n4"])
queue_names = st.sampled_from(["default", "qa", "qb"])
group_names = st.sampled_from(["g1", "g2", "g3"])
pod_names = st.sampled_from([f"p-{index}" for index in range(12)])

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
)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    """Metadata and body of a node: two card models, whole or cut, or none."""
    card = draw(st.sampled_from(["A", "B", "A", "B", ""]))
    allocatable: JsonObject = {
        "cpu": str(draw(st.integers(1, 6))),
        "memory": "8Gi",
        "pods": draw(st.sampled_from(["3", "110"])),
    }
    if card:
        allocatable[GPU] = str(draw(st.integers(0, 4)))
        allocatable.update(draw(st.sampled_from([{}, {}, {SLICE: "2"}, {SLICE: "0"}])))
    labels: JsonObject = {"nvidia.com/gpu.product": card} if card else {}
    if draw(st.integers(0, 7)) == 0:
        labels["nvidia.com/xpu.product"] = "C"
    labels["zone"] = draw(st.sampled_from(["a", "b", "b"]))
    spec: JsonObject = {"unschedulable": draw(st.sampled_from([False, False, False, True]))}
    return {"labels": labels}, {"spec": spec, "status": {"allocatable": allocatable}}


@st.composite
def queues(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    """Metadata and body of a queue."""
    counts = [draw(st.integers(0, 4)) for _ in range(3)]
    quota = f'{{"A": {counts[0]}, "B": {counts[1]}, "A/mig-1g-mixed": {counts[2]}}}'
    capability: JsonObject = draw(
        st.sampled_from([{}, {}, {"cpu": "4"}, {"cpu": "6", GPU: "3"}, {"memory": "4Gi"}])
    )
    annotations: JsonObject = {QUOTA: draw(st.sampled_from([quota, quota, quota, "{"]))}
    if path := draw(st.sampled_from(["", "", "root/x/y", "root/x"])):
        annotations["volcano.sh/hierarchy"] = path
        annotations["volcano.sh/hierarchy-weights"] = draw(st.sampled_from(["1/2/3", "1/2", "x"]))
    guarantee: JsonObject = draw(st.sampled_from([{}, {}, {"cpu": "1"}]))
    deserved: JsonObject = draw(st.sampled_from([{}, {"cpu": "2"}, {"cpu": "1", GPU: "2"}]))
    spec: JsonObject = {
        "priority": draw(st.integers(0, 1)),
        "capability": capability,
        "deserved": deserved,
        "guarantee": {"resource": guarantee},
        "weight": draw(st.integers(0, 3)),
        "parent": draw(st.sampled_from(["", "", "", "qa", "qb", "root", "nowhere"])),
    }
    state = draw(st.sampled_from(["Open", "Open", "Open", "Closed"]))
    return {"annotations": annotations}, {"spec": spec, "status": {"state": state}}


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
        if draw(st.integers(0, 4)) == 0:
            requests[SLICE] = str(cards)
            annotations[CARD] = draw(st.sampled_from(["A/mig-1g-mixed", "A", ""]))
            if draw(st.booleans()):
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
    if draw(st.integers(0, 5)) == 0:
        spec["schedulingGates"] = [{"name": "hold"}]
    labels["app"] = draw(st.sampled_from(["x", "y"]))
    spec.update(draw(demands()))
    meta: JsonObject = {"annotations": annotations, "labels": labels}
    status: JsonObject = {"phase": "Pending"}
    if draw(st.integers(0, 7)) == 0:
        status["nominatedNodeName"] = draw(node_names)
    return meta, {"spec": spec, "status": status}


@st.composite
def demands(draw: st.DrawFn) -> JsonObject:
    """What a pod asks about other pods: mostly nothing."""
    term: JsonObject = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": draw(st.sampled_from(["x", "y"]))}},
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wished = "preferredDuringSchedulingIgnoredDuringExecution"
    match draw(st.integers(0, 11)):
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


_roles = st.sampled_from(["", "w", "m"])
