"""What a tenant may write on its own objects: a generator for every row of the table of privileges.

A row names who is meant to write a key. A tenant writes what the API server accepts, so every row about an object of a
namespace is drawn here, with values that have an effect and with hostile ones.
"""

from collections.abc import Callable, Mapping
from typing import Final

from hypothesis import strategies as st
from msgspec import Struct

from events.normalize import Json, JsonObject
from events.privileges import (
    ANNOTATION,
    BUDGET,
    CLAIM,
    EITHER,
    LABEL,
    POD,
    POD_GROUP,
    ROWS,
    WORKLOAD,
    Privilege,
)
from tests.fuzz.hostile import JSON_TEXTS, NUMBERS, QUANTITIES, TEXTS

TENANT_KINDS: Final = (POD, POD_GROUP, WORKLOAD, BUDGET, CLAIM)
"""Kinds of objects of a namespace."""

QUEUE_NAMES: Final = ("blue", "green", "red", "black", "default", "root", "no-such")
POOL_NAMES: Final = ("main", "side", "default", "no-such")
CLASS_NAMES: Final = ("high", "low", "system-node-critical", "no-such", "")
NAMES: Final = ("own", "blue-0", "green-0", "red-0", "blue/blue-0", "")
TIMES: Final = ("1970-01-02T00:00:00Z", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z")
TRUTHS: Final = ("true", "false")
CHIPS: Final = ("Ascend910-0", "Ascend910-0,Ascend910-1", "Ascend910-7", "Ascend910-99")
GPUS: Final = ("0", "0-3", "3", "99")
SPANS: Final = ("0s", "5s", "87600h")
COUNTS: Final = ("0", "1", "2", "1000000")

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "scheduling.volcano.sh/queue-name": QUEUE_NAMES,
    "muster.sh/pool": POOL_NAMES,
    "determined.ai/resource_pool": POOL_NAMES,
    "muster.sh/priority": ("1", "50", "99"),
    "muster.sh/queue-position": ("-1", "0", "1e3", "-99999999999999999999.5"),
    "determined-queue-position": ("-1", "0", "5.5"),
    "muster.sh/submitted-at": TIMES,
    "muster.sh/weight": ("0.000001", "1", "999999999"),
    "muster.sh/preemptible": TRUTHS,
    "muster.sh/preemption-timeout": SPANS,
    "volcano.sh/preemptable": TRUTHS,
    "volcano.sh/sla-waiting-time": SPANS,
    "determined.ai/task_type": ("TRIAL", "NOTEBOOK", "TASK_TYPE_NOTEBOOK", "CHECKPOINT_GC"),
    "muster.sh/max-slots": COUNTS,
    "muster.sh/job": ("own", "blue-0"),
    "muster.sh/task": ("own", "blue-0"),
    "muster.sh/single-node": TRUTHS,
    "determined.ai/task_id": ("own.1", "blue-0.1"),
    "muster.sh/release-requested": TIMES,
    "scheduling.k8s.io/group-name": NAMES,
    "scheduling.volcano.sh/group-name": NAMES,
    "scheduling.x-k8s.io/pod-group": NAMES,
    "pod-group.scheduling.sigs.k8s.io/name": NAMES,
    "pod-group.scheduling.sigs.k8s.io/min-available": COUNTS,
    "scheduling.volcano.sh/group-min-member": COUNTS,
    "huawei.com/schedule_minAvailable": COUNTS,
    "volcano.sh/task-spec": ("w", "master"),
    "volcano.sh/task-index": COUNTS,
    "volcano.sh/task-priority": ("-1", "100"),
    "batch.kubernetes.io/job-completion-index": COUNTS,
    "volcano.sh/card.name": ("H100", "A100|H100", "no-such"),
    "volcano.sh/card.card": ("H100", "A100"),
    "volcano.sh/card.request": ('{"H100":1}', '{"H100":1000000}'),
    "alibabacloud.com/gpu-milli": ("1", "500", "1000", "4000"),
    "alibabacloud.com/gpu-count": COUNTS,
    "alibabacloud.com/gpu-card-model": ("H100", "no-such"),
    "gpu-fraction": ("0.01", "0.5", "1"),
    "gpu-memory": ("1", "80000", "80001"),
    "gpu-fraction-num-devices": COUNTS,
    "nvidia.com/use-gputype": ("H100",),
    "nvidia.com/nouse-gputype": ("H100",),
    "nvidia.com/use-gpuuuid": ("gpu-0",),
    "nvidia.com/nouse-gpuuuid": ("gpu-0",),
    "nvidia.com/numa-bind": TRUTHS,
    "nvidia.com/vgpu-mode": ("hami-core", "mig"),
    "huawei.com/schedule_policy": ("chip4-node8", "chip1-node2", "no-such"),
    "sp-block": COUNTS,
    "super-pod-affinity": ("hard", "soft"),
    "npu-310-strategy": ("card", "chip"),
    "duo": TRUTHS,
    "distributed": TRUTHS,
    "distributed-job": TRUTHS,
    "vnpu-level": ("high", "low"),
    "vnpu-dvpp": ("yes", "no", "null"),
    "tor-affinity": ("normal-schema", "large-model-schema", "null"),
    "huawei.com/AscendReal": CHIPS,
    "huawei.com/Ascend910": CHIPS,
    "huawei.com/Ascend310": CHIPS,
    "huawei.com/Ascend310P": CHIPS,
    "huawei.com/npu": CHIPS,
    "huawei.com/npu-core": ("0-vir04", "7-vir01"),
    "ascend.kubectl.kubernetes.io/ascend-910-configuration": ("{}",),
    "predicate-time": ("0", "1", "9223372036854775807"),
    "hccl/rankIndex": COUNTS,
    "super-pod-rank": COUNTS,
    "super-pod-id": COUNTS,
    "isSharedTor": COUNTS,
    "isHealthy": COUNTS,
    "sharedTorIp": ("10.0.0.1", "10.0.0.1,10.0.0.2"),
    "alibabacloud.com/gpu-index": GPUS,
    "alibabacloud.com/assume-time": ("0", "9223372036854775807"),
    "hami.io/vgpu-node": ("n1", "n2"),
    "hami.io/vgpu-time": ("0", "9223372036854775807"),
    "hami.io/vgpu-devices-to-allocate": ("gpu-0,NVIDIA,80000,100:;",),
    "hami.io/vgpu-devices-allocated": ("gpu-0,NVIDIA,80000,100:;", "gpu-1,NVIDIA,1,1:;"),
    "hami.io/bind-time": ("0",),
    "hami.io/bind-phase": ("allocating", "success", "failed"),
    "muster.sh/decision": ("0", "1", "999999"),
    "muster.sh/withdrawn-decision": ("1", "5", "999999"),
    "training.kubeflow.org/operator-name": ("pytorchjob-controller",),
    "fault-scheduling": ("grace", "force", "off"),
    "fault-retry-times": COUNTS,
    "pod-rescheduling": ("on", "off"),
    "process-recover-enable": ("on", "off", "pause"),
    "subHealthyStrategy": ("ignore", "graceExit", "forceExit", "hotSwitch"),
    "elastic-scheduling": ("on", "off"),
    "ome.io/inferenceservice": ("x",),
    "app": ("mindie-ms-server", "x"),
    "training.kubeflow.org/replica-type": ("master", "worker"),
    "huawei.com/recover_policy_path": ("pod", "pod,job"),
    "ProcessRecoverStrategy": ("retry", "recover", "dump"),
    "fault-type": ("software", "hardware"),
    "needVolcanoOpe": ("delete",),
    "backupNewPodName": NAMES,
    "backupSourcePodName": NAMES,
    "huawei.com/pod-status": ("fault", "delete"),
    "pv.kubernetes.io/bind-completed": ("yes",),
    "volume.beta.kubernetes.io/storage-class": ("fast", ""),
}
"""Label or annotation to values that have an effect somewhere. Hostile ones are drawn beside them."""

HOSTILE: Final = (
    *TEXTS,
    *(str(one) for one in NUMBERS),
    *(one for one in QUANTITIES if len(one) < 64),
    *(one for one in JSON_TEXTS if "\\ud800" not in one),
    "1" * 5_000,
)
"""Texts for any annotation."""

LABEL_VALUES: Final = ("", "0", "-1", "x", "9223372036854775808", "1e9", "true", "1" * 63)
"""Texts for any label: an API server accepts few characters."""


class Write(Struct, frozen=True):
    """A merge patch of a tenant's own object."""

    key: str
    """The row of the table that it is of."""
    merge: JsonObject
    is_for_creation: bool = False
    """Whether the API server accepts it only when the object is created."""


def rows(kind: str) -> tuple[Privilege, ...]:
    """Return the rows about a kind, in the order of the table."""
    return tuple([row for row in ROWS if kind in row.kinds])


def is_drawn(row: Privilege) -> bool:
    """Return whether there is a generator for a row."""
    return row.key in FIELDS or (row.form in (ANNOTATION, LABEL, EITHER) and row.key in VALUES)


def writes(kind: str) -> st.SearchStrategy[Write]:
    """Draw a write on an object of a kind: any row of the table about it, more often one that concerns others."""
    of_kind = rows(kind)
    concerning = [row for row in of_kind if row.others] or of_kind
    drawn = st.one_of(st.sampled_from(of_kind), st.sampled_from(concerning))
    return drawn.flatmap(lambda row: _write(row, kind))


def _write(row: Privilege, kind: str) -> st.SearchStrategy[Write]:
    if row.key in FIELDS:
        return FIELDS[row.key](kind)
    meant = st.sampled_from(VALUES[row.key])
    sections = {ANNOTATION: ("annotations",), LABEL: ("labels",)}.get(
        row.form, ("annotations", "labels")
    )

    def of_section(section: str) -> st.SearchStrategy[Write]:
        hostile = st.sampled_from(HOSTILE if section == "annotations" else LABEL_VALUES)
        removed: st.SearchStrategy[Json] = st.none()
        values: st.SearchStrategy[Json] = st.one_of(meant, meant, meant, hostile, removed)
        if section == "labels":
            values = values.filter(_is_label)
        return values.map(lambda value: Write(row.key, {"metadata": {section: {row.key: value}}}))

    return st.sampled_from(sections).flatmap(of_section)


def _is_label(value: Json) -> bool:
    return value is None or (
        isinstance(value, str)
        and len(value) <= 63
        and all(one.isascii() and (one.isalnum() or one in "-_.") for one in value)
        and (not value or (value[0].isalnum() and value[-1].isalnum()))
    )


Values = tuple[Json, ...]


def _each(key: str, values: Values) -> tuple[JsonObject, ...]:
    return tuple([{key: one} for one in values])


_AMOUNTS: Final[Values] = ("0", "1", "4", "64", "-1", "1e18", "9223372036854775808", "1e-9")
_HOSTILE_NUMBERS: Final[Values] = (*NUMBERS, None, "1", 0.5)
_ANY_POD: Final[JsonObject] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {},
                "namespaceSelector": {},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
"""Anti-affinity to all pods of all namespaces."""
_LEAST: Final[tuple[JsonObject, ...]] = (
    {"minMember": 1},
    {"minMember": 2},
    {"minMember": 1_000_000},
    *_each("minMember", _HOSTILE_NUMBERS),
    *_each("minResources", (*_each("cpu", _AMOUNTS), *_each("nvidia.com/gpu", _AMOUNTS))),
    {"minResources": {"huawei.com/Ascend910": "8", "count/pods": "1000000"}},
    {"minResources": None},
    {"minTaskMember": {"w": 2, "master": 1}},
    {"minTaskMember": {"w": -1}},
    {"minTaskMember": {"": 2**63}},
    {"networkTopology": {"mode": "hard", "highestTierAllowed": 0}},
    {"networkTopology": {"mode": "hard", "highestTierName": "no-such"}},
    {"networkTopology": {"mode": 1}},
    {"subGroupPolicy": [{"name": "s", "subGroupSize": 2, "matchLabelKeys": ["x"]}]},
    {"subGroupPolicy": [{"name": "", "subGroupSize": -1}]},
)
_PHASES: Final[Values] = (
    *("", "Pending", "Inqueue", "Running", "Unknown", "Completed", "Deleted", "no-such", 1),
)
_GROUP_STATUSES: Final[tuple[JsonObject, ...]] = (
    *_each("phase", _PHASES),
    {"phase": "Running", "running": 2**31, "succeeded": -1, "failed": "x"},
    {"conditions": [{"type": "Unschedulable", "status": "True", "reason": "x" * 1000}] * 100},
    {"conditions": [None, 1, {"type": 1}]},
)
_OWNERS: Final[Values] = (
    [],
    [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}],
    [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1", "controller": True}],
    [{"apiVersion": "v1", "kind": "Pod", "name": "blue-0-0", "uid": "x", "controller": True}],
    [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "blue-0", "uid": "blue-0"}],
    [{"kind": "", "name": None, "controller": "yes"}],
)
_HUGE: Final[Values] = (
    [{"name": "m", "resources": {"requests": {"cpu": "9E"}}}],
    [{"name": "m", "resources": {"requests": {"memory": "9E"}}}],
    [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "9E"}}}],
    [{"name": "m", "resources": {"limits": {"huawei.com/Ascend910": "9E"}}}],
    [{"name": "m", "resources": {"limits": {"x.example/y": "1"}}}],
)
_REQUESTS: Final[tuple[JsonObject, ...]] = (
    {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
    {"nodeSelector": {"x": "y"}},
    {"tolerations": [{"operator": "Exists"}]},
    {"affinity": _ANY_POD},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
    {"schedulingGates": [{"name": "x"}]},
    {"terminationGracePeriodSeconds": 2**63 - 1},
    {"preemptionPolicy": "Never"},
    *_each("containers", _HUGE),
    {"overhead": {"cpu": "1"}},
    {"hostNetwork": True},
)
_STATUSES: Final[tuple[JsonObject, ...]] = (
    {"phase": "Failed", "reason": "TopologyAffinityError", "message": "x"},
    {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "x"},
    {"phase": "Failed", "reason": "OutOfcpu", "message": "x"},
    {"phase": "Failed"},
    {"phase": "Succeeded"},
    {"phase": "Unknown"},
    {"phase": 1},
    {"nominatedNodeName": "n1"},
    {"nominatedNodeName": "no-such"},
    {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] * 50},
    {"conditions": [{"type": "Ready", "status": "True"}]},
    {"conditions": [{"type": "DisruptionTarget", "status": "True"}, None, 1]},
    {"containerStatuses": [{"name": "m", "allocatedResources": {"cpu": "1e18"}}]},
    {"containerStatuses": [{"name": "m", "resources": {"requests": {"cpu": "-1"}}}]},
    {"resize": "InProgress"},
    {"startTime": "0001-01-01T00:00:00Z"},
)
_SHARES_OF_PODS: Final[Values] = (0, 1, "0%", "50%", "100%", 2**31 - 1, -1, "-5%", "1e9%", "", None)

Draw = Callable[[str], st.SearchStrategy[Write]]


def _specs(key: str, specs: tuple[JsonObject, ...], *, is_for_creation: bool) -> Draw:
    drawn = st.sampled_from([Write(key, {"spec": one}, is_for_creation) for one in specs])
    return lambda _: drawn


def _class(kind: str) -> st.SearchStrategy[Write]:
    key = "spec.priorityClassName"
    return st.sampled_from(
        [Write(key, {"spec": {"priorityClassName": one}}, kind != POD_GROUP) for one in CLASS_NAMES]
    )


def _group_spec(kind: str) -> st.SearchStrategy[Write]:
    # A controller of workloads makes the PodGroup of its template.
    return st.sampled_from([Write(LEAST, {"spec": one}, kind != POD_GROUP) for one in _LEAST])


LEAST: Final = "spec.minMember, spec.minTaskMember, spec.minResources, spec.subGroupPolicy, spec.networkTopology"
REQUESTS: Final = (
    "spec.containers[].resources, spec.nodeSelector, spec.affinity, spec.tolerations and so on"
)
BUDGET_FIELDS: Final = ("maxUnavailable", "minAvailable")
NODE_NAME: Final = "spec.nodeName"
POD_STATUS: Final = "status of a Pod"
BINDING: Final = "Binding"
OWNER: Final = "metadata.ownerReferences"
PHASE: Final = "status.phase"
MIRROR: Final = "kubernetes.io/config.mirror"

FIELDS: Final[Mapping[str, Draw]] = {
    "spec.queue": lambda _: st.sampled_from(
        [Write("spec.queue", {"spec": {"queue": one}}) for one in (*QUEUE_NAMES, "", 1, None)]
    ),
    "spec.priorityClassName": _class,
    LEAST: _group_spec,
    PHASE: lambda _: st.sampled_from([Write(PHASE, {"status": one}) for one in _GROUP_STATUSES]),
    OWNER: lambda _: st.sampled_from(
        [Write(OWNER, {"metadata": {"ownerReferences": one}}) for one in _OWNERS]
    ),
    REQUESTS: _specs(REQUESTS, _REQUESTS, is_for_creation=True),
    NODE_NAME: _specs(
        NODE_NAME,
        ({"nodeName": "n1"}, {"nodeName": "n2"}, {"nodeName": "no-such"}),
        is_for_creation=True,
    ),
    MIRROR: lambda _: st.just(
        Write(
            MIRROR,
            {"metadata": {"annotations": {MIRROR: "x"}}, "spec": {"nodeName": "n1"}},
            is_for_creation=True,
        )
    ),
    "spec.schedulerName": _specs(
        "spec.schedulerName",
        ({"schedulerName": "volcano"}, {"schedulerName": "other"}, {"schedulerName": ""}),
        is_for_creation=True,
    ),
    POD_STATUS: lambda _: st.sampled_from(
        [Write(POD_STATUS, {"status": one}) for one in _STATUSES]
    ),
    **{
        f"spec.{one}": _specs(f"spec.{one}", _each(one, _SHARES_OF_PODS), is_for_creation=False)
        for one in BUDGET_FIELDS
    },
    BINDING: _specs(BINDING, ({"nodeName": "n1"}, {"nodeName": "n2"}), is_for_creation=False),
}
"""Row about a field or an object to what draws writes of it, by kind."""
