"""Cases by seed: objects made from the OpenAPI schemas, with hostile values where muster reads.

An object begins as a plain one of its kind, so that it takes part in scheduling; then fields of its schema
are added, those that muster reads much more often than others. What would keep the canaries from being placed
by right (a toleration of their node's taint, their queue as a parent) is left out.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from daemon.cluster.client.calls import WATCHED
from projections.api_resource import Resource
from tests.fuzz import hostile
from tests.fuzz.case import Case, Change
from tests.fuzz.hostile import Json, JsonObject
from tests.fuzz.schemas import Schema, stored

RESERVED: Final = "fuzz.muster.sh/canary"
"""Taint, label and resource of the node on which only canaries may run."""

ROUNDS: Final = 5
OBJECTS: Final = 60
"""Of a case, created or changed, when nothing else is asked for."""

READ_FIELDS: Final = frozenset(
    (
        *("metadata", "labels", "annotations", "ownerReferences", "spec", "status", "containers"),
        *("initContainers", "resources", "requests", "limits", "overhead", "nodeSelector"),
        *("affinity", "nodeAffinity", "podAffinity", "podAntiAffinity", "tolerations"),
        *("topologySpreadConstraints", "schedulingGates", "priority", "priorityClassName"),
        *("preemptionPolicy", "schedulerName", "requiredDuringSchedulingIgnoredDuringExecution"),
        *("preferredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        *("matchExpressions", "matchFields", "matchLabels", "labelSelector", "namespaceSelector"),
        *("namespaces", "topologyKey", "key", "operator", "values", "effect", "value"),
        *("tolerationSeconds", "weight", "preference", "podAffinityTerm", "maxSkew"),
        *("whenUnsatisfiable", "minDomains", "matchLabelKeys", "mismatchLabelKeys"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "ports", "hostPort", "hostIP", "protocol"),
        *("image", "images", "sizeBytes", "unschedulable", "taints", "allocatable", "capacity"),
        *("conditions", "phase", "reason", "nominatedNodeName", "minMember", "minTaskMember"),
        *("minResources", "queue", "networkTopology", "mode", "highestTierAllowed"),
        *("highestTierName", "subGroupPolicy", "subGroupSize", "minSubGroups", "running"),
        *("succeeded", "failed", "capability", "deserved", "guarantee", "resource", "parent"),
        *("reclaimable", "state", "tier", "tierName", "members", "type", "selector"),
        *("exactMatch", "regexMatch", "labelMatch", "pattern", "minAvailable", "maxUnavailable"),
        *("disruptionsAllowed", "replicas", "parallelism", "completions", "template", "tasks"),
        *("policies", "partitionPolicy", "minPartitions", "volumes", "resourceClaims"),
        *("restartPolicy", "globalDefault", "name"),
    )
)
"""Fields that muster reads, or that hold such a field."""

KEEP_WAITING: Final = frozenset(("volumes", "resourceClaims", "schedulingGates", "nodeSelector"))
"""Fields that keep most pods from being placed: with all of them in every pod, nothing would be tried."""

READ: Final = 0.25
OTHER: Final = 0.015
HOSTILE: Final = 0.12
WRONG_TYPE: Final = 0.01
UNKNOWN_FIELD: Final = 0.004
"""Chances: that a field muster reads is there, that another is; that a value is hostile, or of another type
than its schema's; that an object has an unknown field, many levels deep."""

DEPTH_MAX: Final = 9
"""Levels down to which optional fields are generated."""

WEIGHTS: Final = {
    "Pod": 40,
    "PodGroup": 18,
    "Queue": 8,
    "Node": 8,
    "HyperNode": 6,
    "PodDisruptionBudget": 4,
    "PriorityClass": 2,
    "Namespace": 2,
    "Deployment": 2,
    "ReplicaSet": 3,
    "StatefulSet": 2,
    "DaemonSet": 1,
    "Job": 2,
    "Job.batch.volcano.sh": 4,
}
EMPTY_LISTS: Final[tuple[tuple[Json, ...], ...]] = ((), ({},), ({}, {}), (None,))
RESOURCES: Final[dict[str, Resource]] = {one.name: one for one in WATCHED if one.name in WEIGHTS}

NAMES: Final = {"Node": 6, "Queue": 4, "PodGroup": 4, "HyperNode": 6, "Pod": 40}
"""How many different objects of a kind a case has, at most; 3 where nothing is said."""

NAMESPACES: Final = ("default", "team-a")
LABELS: Final = (
    "app",
    "zone",
    "rack",
    "role",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
)
LABEL_VALUES: Final = ("a", "b", "c", "1", "2", "")
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal")
PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed", "")
AMOUNTS: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"),
    *("hugepages-2Mi", "rdma/hca", "volcano.sh/vgpu-number", "attachable-volumes-csi-x", "H200"),
)
POD_ANNOTATIONS: Final = (
    *("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "volcano.sh/task-spec"),
    *("scheduling.volcano.sh/queue-name", "volcano.sh/task-priority", "volcano.sh/preemptable"),
    *("volcano.sh/card.name", "volcano.sh/card.request", "volcano.sh/sla-waiting-time"),
    *(
        "volcano.sh/task-index",
        "volcano.sh/job-name",
        "volcano.sh/revocable-zone",
        "volcano.sh/qos-level",
    ),
    *(
        "scheduling.volcano.sh/queue-allocation-gate",
        "muster.sh/decision",
        "volcano.sh/cooldown-time",
    ),
    *("volcano.sh/partition-id", "volcano.sh/numa-topology-policy", "volcano.sh/jdb-min-available"),
)
OWNER_ANNOTATIONS: Final = (
    *("scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/group-min-resources"),
    *("scheduling.volcano.sh/queue-name", "volcano.sh/card.request", "volcano.sh/sla-waiting-time"),
    *("volcano.sh/card.name", "volcano.sh/preemptable", "volcano.sh/jdb-max-unavailable"),
    *("volcano.sh/job-allocated-hypernode", "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"),
    *(
        "volcano.sh/card.quota",
        "volcano.sh/network-topology-mode",
        "volcano.sh/network-topology-highest-tier",
    ),
)

HIERARCHICAL: Final = "+"
"""Behind a plugin below: it has `enableHierarchy`."""


def _policy(actions: str, *tiers: str) -> JsonObject:
    return {"actions": actions, "tiers": [{"plugins": _plugins(tier)} for tier in tiers]}


def _plugins(tier: str) -> list[Json]:
    return [
        {"name": name.removesuffix(HIERARCHICAL)}
        | ({"enableHierarchy": True} if name.endswith(HIERARCHICAL) else {})
        for name in tier.split()
    ]


POLICIES: Final = (
    _policy(
        "enqueue, allocate, backfill, preempt, reclaim",
        "priority gang conformance sla",
        "drf predicates capacity-card nodeorder binpack network-topology-aware",
    ),
    _policy(
        "enqueue, allocate, preempt, backfill",
        "priority gang sla",
        "drf+ predicates nodeorder network-topology-aware",
    ),
    _policy(
        "enqueue, allocate, gangpreempt, gangreclaim, reclaim, backfill",
        "priority gang",
        "predicates capacity+ nodeorder network-topology-aware",
    ),
    _policy("allocate, backfill, reclaim", "gang priority", "predicates nodeorder binpack"),
)
"""Between them they have every action, and every plugin by which a tenant cannot take another's place."""


def generated(seed: int, objects: int = OBJECTS) -> Case:
    """The case of a seed. Equal seeds give equal cases."""
    return _Generator(Random(seed)).case(seed, objects)


class _Generator:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._there: dict[tuple[str, str, str], JsonObject] = {}
        self._schemas = stored()
        self._hostile = chance.choice((0.0, HOSTILE / 16, HOSTILE / 4, HOSTILE))
        """Some cases are harmless, so that combinations of plain values are tried as well."""

    def case(self, seed: int, objects: int) -> Case:
        """A whole case."""
        chance = self._chance
        policy = POLICIES[chance.randrange(len(POLICIES))]
        rounds = [self._round(objects // ROUNDS, is_first=not index) for index in range(ROUNDS)]
        restarts = [chance.randrange(1, ROUNDS)] if chance.random() < 0.3 else []
        troubled = chance.random() < 0.3
        return Case(
            seed=seed,
            policy=policy,
            rounds=rounds,
            restarts=restarts,
            unanswered=10 * troubled,
            refused=10 * troubled,
        )

    def _round(self, objects: int, *, is_first: bool) -> list[Change]:
        changes = self._beginning() if is_first else []
        while len(changes) < objects:
            if not is_first and self._there and self._chance.random() < 0.15:
                changes.append(self._deletion())
            else:
                changes.append(self._creation())
        return changes

    def _deletion(self) -> Change:
        key = self._chance.choice(list(self._there))
        del self._there[key]
        resource, namespace, name = key
        return Change(resource=resource, namespace=namespace, name=name)

    def _beginning(self) -> list[Change]:
        """Nodes, queues and groups with which something can happen."""
        changes = [self._plain_node(index) for index in range(3)]
        for index in range(3):
            queue: JsonObject = {"metadata": {}, "spec": {"weight": index + 1}}
            changes.append(self._put("Queue", "", f"queue-{index}", queue))
            for namespace in NAMESPACES:
                spec: JsonObject = {"minMember": index, "queue": f"queue-{index}"}
                group: JsonObject = {"metadata": {}, "spec": spec}
                changes.append(self._put("PodGroup", namespace, f"podgroup-{index}", group))
        return changes

    def _plain_node(self, index: int) -> Change:
        """A node on which something can happen."""
        labels: JsonObject = {"zone": "ab"[index % 2], "kubernetes.io/hostname": f"node-{index}"}
        amounts: JsonObject = {"cpu": "6", "memory": "64Gi", "pods": "50", "nvidia.com/gpu": "4"}
        manifest: JsonObject = {"metadata": {"labels": labels}, "status": {"allocatable": amounts}}
        return self._put("Node", "", f"node-{index}", manifest)

    def _creation(self) -> Change:
        chance = self._chance
        name_of_kind = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        resource = RESOURCES[name_of_kind]
        namespace = chance.choice(NAMESPACES) if resource.is_namespaced else ""
        name = f"{resource.kind.lower()}-{chance.randrange(NAMES.get(name_of_kind, 3))}"
        manifest = self._manifest(name_of_kind)
        return self._put(name_of_kind, namespace, name, manifest)

    def _put(self, resource: str, namespace: str, name: str, manifest: JsonObject) -> Change:
        self._there[resource, namespace, name] = manifest
        return Change(resource=resource, namespace=namespace, name=name, manifest=manifest)

    # Objects

    def _manifest(self, resource: str) -> JsonObject:
        chance = self._chance
        made = self._value({"$ref": resource}, resource, 0)
        manifest = made if isinstance(made, dict) else {}
        for key in ("apiVersion", "kind"):
            manifest.pop(key, None)
        _merge(manifest, self._plain(resource))
        manifest["metadata"] = self._metadata(resource)
        if chance.random() < UNKNOWN_FIELD * (self._hostile > 0):
            spec = manifest.setdefault("spec", {})
            if isinstance(spec, dict):
                spec["unknownField"] = hostile.nested(chance)
        if chance.random() < 0.002 * (self._hostile > 0):
            self._grow(resource, manifest)
        _leave_the_canaries_their_place(manifest)
        return manifest

    def _plain(self, resource: str) -> JsonObject:
        """What makes an object of a kind take part."""
        chance = self._chance
        requests: JsonObject = {"cpu": chance.choice(("1", "500m", "2", "4")), "memory": "1Gi"}
        container: JsonObject = {
            "name": "main",
            "image": "image",
            "resources": {"requests": requests},
        }
        pod: JsonObject = {"schedulerName": "muster", "containers": [container]}
        match resource:
            case "Pod":
                phase = chance.choices(
                    ("Pending", "Running", "Failed", "Succeeded"), (80, 8, 6, 6)
                )[0]
                if phase != "Pending" or chance.random() < 0.05:
                    pod["nodeName"] = f"node-{chance.randrange(6)}"
                return {"spec": pod, "status": {"phase": phase}}
            case "PodGroup":
                return {"spec": {"minMember": chance.randrange(4), "queue": _queue(chance)}}
            case "Queue":
                return {"spec": {"weight": 1}}
            case "HyperNode":
                selector: JsonObject = {"exactMatch": {"name": f"node-{chance.randrange(6)}"}}
                members: JsonObject = {"type": "Node", "selector": selector}
                return {"spec": {"tier": chance.randrange(1, 4), "members": [members]}}
            case "Node":
                amounts: JsonObject = {"cpu": "8", "memory": "32Gi", "pods": "20"}
                return {"status": {"allocatable": amounts}}
            case "PriorityClass":
                return {"value": chance.choice((0, 10, -5, 2_000_000_000))}
            case _:
                return {}

    def _metadata(self, resource: str) -> JsonObject:
        chance = self._chance
        metadata: JsonObject = {}
        if chance.random() < 0.6:
            metadata["labels"] = _labels(chance)
        names = POD_ANNOTATIONS if resource == "Pod" else OWNER_ANNOTATIONS
        annotations: JsonObject = {}
        if resource == "Pod" and chance.random() < 0.7:
            annotations["scheduling.k8s.io/group-name"] = f"podgroup-{chance.randrange(4)}"
        left = hostile.ANNOTATIONS_BYTES
        for _ in range(chance.choice((0, 0, 1, 2, 5))):
            name = chance.choice(names)
            value = self._annotation(name)
            left -= len(name) + len(value.encode())
            if left >= 0:
                annotations[name] = value
        if annotations:
            metadata["annotations"] = annotations
        if chance.random() < 0.2:
            metadata["ownerReferences"] = [
                self._owner() for _ in range(chance.choice((1, 1, 1, 3)))
            ]
        if resource == "Pod" and chance.random() < 0.03:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return metadata

    def _annotation(self, name: str) -> str:
        chance = self._chance
        if chance.random() < self._hostile:
            return hostile.json_text(chance) if "card." in name else hostile.text(chance)
        match name.rpartition("/")[2]:
            case "group-name":
                return f"podgroup-{chance.randrange(4)}"
            case "queue-name":
                return _queue(chance)
            case "card.name":
                return chance.choice(("H200", "4090", "H200|4090", ""))
            case "card.request" | "card.quota":
                return chance.choice(('{"H200":1}', '{"H200":4,"4090":2}', "{}"))
            case "sla-waiting-time" | "cooldown-time":
                return chance.choice(("1s", "1m", "1h2m", "10s"))
            case "hierarchy":
                return chance.choice(("root/a/q", "root/b", "root", "root/a/b/c/d"))
            case "hierarchy-weights":
                return chance.choice(("1/1/1", "1/2", "1", "100/50/50"))
            case "preemptable":
                return chance.choice(("true", "false"))
            case "group-min-resources":
                return chance.choice(('{"cpu":"1"}', "{}"))
            case "network-topology-mode":
                return chance.choice(("hard", "soft"))
            case _:
                return str(chance.randrange(5))

    def _owner(self) -> Json:
        chance = self._chance
        if chance.random() < self._hostile / 4:
            return hostile.other_type(chance)
        kind = chance.choice(
            ("ReplicaSet", "Job", "StatefulSet", "DaemonSet", "Deployment", "Node", "X")
        )
        name = f"{kind.lower()}-{chance.randrange(3)}"
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1" if chance.random() < 0.3 else "apps/v1",
            "kind": kind,
            "name": name,
            "uid": f"uid-{kind}-{name}",
            "controller": chance.random() < 0.8,
        }

    def _grow(self, resource: str, manifest: JsonObject) -> None:
        """Let one list be as long as the API server takes it."""
        chance = self._chance
        spec = manifest.setdefault("spec", {})
        if not isinstance(spec, dict):
            return
        if resource == "Pod":
            container: JsonObject = {"name": "c", "resources": {"requests": {"cpu": "1m"}}}
            long: dict[str, list[Json]] = {
                "tolerations": [
                    {"key": f"key-{index}", "operator": "Exists"} for index in range(10_000)
                ],
                "containers": [dict(container) for _ in range(1_000)],
                "initContainers": [dict(container) for _ in range(1_000)],
                "schedulingGates": [{"name": f"gate-{index}"} for index in range(1_000)],
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": f"key-{index}",
                        "whenUnsatisfiable": "DoNotSchedule",
                    }
                    for index in range(200)
                ],
            }
        elif resource == "HyperNode":
            member: JsonObject = {
                "type": "Node",
                "selector": {"regexMatch": {"pattern": "^(a+)+$"}},
            }
            long = {"members": [dict(member) for _ in range(2_000)]}
        elif resource == "PodGroup":
            policy: JsonObject = {"name": "p", "labelSelector": {"matchLabels": {"app": "a"}}}
            long = {"subGroupPolicy": [dict(policy) for _ in range(1_000)]}
            spec["minTaskMember"] = {f"task-{index}": 1 for index in range(5_000)}
        else:
            long = {"unknown": [1] * 50_000}
        key = chance.choice(list(long))
        spec[key] = long[key]

    # Values

    def _value(self, schema: Schema, name: str, depth: int) -> Json:
        """A value of a schema. `name` is that of the field which holds it."""
        chance = self._chance
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        at = chance.random()
        if at < WRONG_TYPE * (self._hostile > 0):
            return hostile.other_type(chance)
        if at < WRONG_TYPE + self._hostile:
            return self._hostile_value(schema, name)
        if name in _LIKELY:
            return _LIKELY[name](chance)
        if "enum" in schema:
            return str(chance.choice(schema["enum"]))
        if "properties" in schema:
            return self._object(schema, depth)
        if "additionalProperties" in schema:
            return self._mapping(schema["additionalProperties"], name, depth)
        match schema.get("type"):
            case "array":
                count = chance.choice((0, 1, 1, 2, 3)) if depth < DEPTH_MAX else 0
                return [self._value(schema["items"], name, depth + 1) for _ in range(count)]
            case "integer" | "number":
                return chance.choice((0, 1, 1, 2, 3, 5, 100))
            case "boolean":
                return chance.random() < 0.5
            case "object":
                return {}
            case _:
                return chance.choice((*LABEL_VALUES, "text", "default"))

    def _object(self, schema: Schema, depth: int) -> JsonObject:
        chance = self._chance
        required = schema.get("required", ())
        made: JsonObject = {}
        for name, inner in schema["properties"].items():
            likely = READ if name in READ_FIELDS else OTHER
            if name in KEEP_WAITING:
                likely = 0.05
            if depth >= DEPTH_MAX:
                likely = 0.0
            if chance.random() < (0.97 if name in required or depth == 0 else likely):
                made[name] = self._value(inner, name, depth + 1)
        return made

    def _mapping(self, schema: Schema, name: str, depth: int) -> JsonObject:
        chance = self._chance
        count = chance.choice((0, 1, 2, 3)) if depth < DEPTH_MAX else 0
        if name == "minTaskMember":
            keys = [chance.choice(("worker", "launcher", "", "text")) for _ in range(count)]
        elif name in _OF_AMOUNTS:
            return {chance.choice(AMOUNTS): self._amount() for _ in range(count)}
        else:
            keys = [chance.choice(LABELS) for _ in range(count)]
        return {key: self._value(schema, "", depth + 1) for key in keys}

    def _hostile_value(self, schema: Schema, name: str) -> Json:
        chance = self._chance
        if name in _OF_AMOUNTS:
            count = chance.choice((1, 2, 5))
            return {
                chance.choice((*AMOUNTS, hostile.text(chance)[:300])): hostile.quantity(chance)
                for _ in range(count)
            }
        match schema.get("type"):
            case "integer" | "number":
                return hostile.number(chance)
            case "string":
                return hostile.text(chance)
            case "array":
                return list(chance.choice(EMPTY_LISTS))
            case "object" if schema.get("x-kubernetes-preserve-unknown-fields"):
                return chance.choice(({}, hostile.nested(chance), hostile.other_type(chance)))
            case "object":
                return {}
            case "boolean":
                return chance.random() < 0.5
            case _:
                return hostile.quantity(chance)

    def _amount(self) -> Json:
        chance = self._chance
        if chance.random() < self._hostile:
            return hostile.quantity(chance)
        return chance.choice(("0", "1", "2", "500m", "1Gi", "4", 1, 2))


_OF_AMOUNTS: Final = frozenset(
    (
        *("requests", "limits", "overhead", "allocatable", "capacity"),
        *("minResources", "capability", "deserved", "guarantee", "resource"),
    )
)
"""Fields that hold amounts by resource."""

_LIKELY: Final[dict[str, Callable[[Random], Json]]] = {
    "queue": lambda chance: _queue(chance),
    "parent": lambda chance: _queue(chance),
    "schedulerName": lambda chance: chance.choice(("muster", "muster", "default-scheduler")),
    "topologyKey": lambda chance: chance.choice(LABELS),
    "key": lambda chance: chance.choice(LABELS),
    "values": lambda chance: [chance.choice(LABEL_VALUES) for _ in range(chance.randrange(3))],
    "matchLabels": lambda chance: _labels(chance),
    "labels": lambda chance: _labels(chance),
    "nodeSelector": lambda chance: _labels(chance),
    "operator": lambda chance: chance.choice(OPERATORS),
    "effect": lambda chance: chance.choice(("NoSchedule", "PreferNoSchedule", "NoExecute", "")),
    "whenUnsatisfiable": lambda chance: chance.choice(("DoNotSchedule", "ScheduleAnyway")),
    "phase": lambda chance: chance.choice(PHASES),
    "priorityClassName": lambda chance: chance.choice(("priorityclass-0", "priorityclass-1", "")),
    "nodeName": lambda _: "",
    "ownerReferences": lambda _: [],
}
"""Fields whose plain values are of use only if they fit those of other objects."""


def _queue(chance: Random) -> str:
    return "none" if chance.random() < 0.03 else f"queue-{chance.randrange(4)}"


def _labels(chance: Random) -> JsonObject:
    names = [chance.choice(LABELS) for _ in range(chance.randrange(4))]
    return {name: chance.choice(LABEL_VALUES) for name in names}


def _merge(made: JsonObject, plain: JsonObject) -> None:
    """Put plain values where nothing was generated, and always at the top of a spec."""
    for key, value in plain.items():
        there = made.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            made[key] = {**value, **there}
        elif key not in made:
            made[key] = value


def _leave_the_canaries_their_place(manifest: JsonObject) -> None:
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return
    tolerations = spec.get("tolerations")
    if isinstance(tolerations, list):
        kept = [one for one in tolerations if not isinstance(one, dict) or one.get("key")]
        spec["tolerations"] = kept
    spec.pop("guarantee", None)
