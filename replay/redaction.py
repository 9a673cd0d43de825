"""Objects, events and policies under pseudonyms.

Names and free values are replaced wherever they stand; what decisions are computed from stays: amounts, times, conditions,
the names of resources, cards and devices, and the vocabulary of Kubernetes, Volcano and the vendors. What is not known to be
vocabulary counts as free. docs/log.md lists what stays.

`Redaction` is used twice: first it collects what has to be replaced, then it replaces.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
import re2
from msgspec import structs

from events.json_value import Json, JsonObject
from events.requeue import VOLUMES
from events.standing.kinds import is_standing
from features.pools.group_overrides import KIND as OVERRIDES
from features.pools.group_overrides import override_name
from features.table import FEATURES
from projections.feature_device_families import families_of
from projections.hyper_nodes import PATTERN_BYTES_MAX
from projections.policy.namespace_rule import (
    NAMES,
    SELECTOR,
    requirement_text,
    selector_requirements,
)
from projections.refusals import CLAIM_CODES, REACH_CODES
from projections.volumes.facts import (
    BETA_CLASS,
    CLAIM,
    DRIVER,
    STORAGE_CLASS,
    VOLUME,
    ZONE_KEYS,
    ZONE_SEPARATOR,
)
from replay.pseudonyms import WELL_KNOWN, Pseudonyms

ALL: Final = "all"
"""Redacts the names of every kind."""

KEY_CHARS_MAX: Final = 317
"""Characters of the longest key of a label: 253 of its domain, a slash, and 63."""

TEXTS: Final = frozenset({"message", "detail", "wanted", "counts", "path", "limit"})
"""Fields of decisions that are computed from names and are made again under pseudonyms."""

_DOMAINS: Final = (
    *("kubernetes.io", "k8s.io", "x-k8s.io", "volcano.sh", "muster.sh", "kubeflow.org", "ray.io"),
    *("nvidia.com", "amd.com", "intel.com", "huawei.com", "huaweicloud.com", "hami.io", "ome.io"),
    *("alibabacloud.com", "determined.ai", "koordinator.sh", "projectcalico.org", "k3s.io"),
)
"""Domains whose keys stay, also in front of their subdomains."""

_PLAIN_KEYS: Final = frozenset(
    {
        *("accelerator", "accelerator-type", "app", "servertype", "server-usage", "host-arch"),
        *(
            "tor-affinity",
            "isSharedTor",
            "isHealthy",
            "sharedTorIp",
            "fault-scheduling",
            "fault-type",
        ),
        *("fault-retry-times", "pod-rescheduling", "process-recover-enable", "subHealthyStrategy"),
        *("elastic-scheduling", "ProcessRecoverStrategy", "needVolcanoOpe", "backupNewPodName"),
        *("backupSourcePodName", "vnpu-level", "vnpu-dvpp", "npu-310-strategy", "distributed-job"),
        *("super-pod-rank", "super-pod-id", "sp-block", "hccl/rankIndex", "deploymentName"),
        *("determined-preemption", "determined-queue-position", "job-name", "job-index", "version"),
        *("controller-uid", "pod-template-hash", "controller-revision-hash", "predicate-time"),
        *("ring-controller.atlas", "ring-controller.cce", "mx-consumer-cim", "mx-consumer-volcano"),
        *("super-pod-affinity", "host-ip", "infer-card-type", "duo"),
        *("gpu-fraction", "gpu-memory", "gpu-fraction-container-name", "gpu-fraction-num-devices"),
        *("distributed", "baseDeviceInfos", "superPodID", "serverIndex"),
    }
)
"""Keys without a domain that muster, Volcano or a vendor reads."""

_FREE_VALUES: Final = frozenset(
    {
        *("controller-revision-hash", "pod-template-hash"),
        *("app", "deploymentName", "job-name", "host-ip", "sharedTorIp", "backupNewPodName"),
        *("backupSourcePodName", "muster.sh/job", "muster.sh/task", "version"),
    }
)
"""Keys that stay, and whose values are replaced."""

_VENDORS: Final = (
    *("nvidia.com", "amd.com", "intel.com", "huawei.com", "hami.io", "alibabacloud.com"),
    *("muster.sh", "determined.ai", "card.volcano.sh"),
)
"""Domains whose values stay as well: they describe devices and options."""

_OF_NAMES: Final = {
    "kubernetes.io/hostname": "Node",
    "hami.io/vgpu-node": "Node",
    "scheduling.volcano.sh/queue-name": "Queue",
    "volcano.sh/queue-name": "Queue",
    "kueue.x-k8s.io/queue-name": "Queue",
    "scheduling.k8s.io/group-name": "PodGroup",
    "scheduling.volcano.sh/group-name": "PodGroup",
    "scheduling.x-k8s.io/pod-group": "PodGroup",
    "pod-group.scheduling.sigs.k8s.io/name": "PodGroup",
    "metadata.name": "Node",
    BETA_CLASS: STORAGE_CLASS,
}
"""Keys of labels, annotations and fields to the kind that their values name."""

_NAMESPACE_KEYS: Final = ("kubernetes.io/metadata.name", "metadata.namespace")
_PATHS: Final = ("volcano.sh/hierarchy",)
"""Annotations that are a path of queues."""

_NAMING: Final = ("ascend.kubectl.kubernetes.io/ascend-910-configuration",)
"""Annotations whose values stay but for the names in their JSON."""

_KEPT_VALUES: Final = frozenset(
    {
        *("volcano.sh/preemptable", "volcano.sh/task-index", "volcano.sh/sla-waiting-time"),
        *("sla-waiting-time", "volcano.sh/task-priority", "volcano.sh/hierarchy-weights"),
        *("volcano.sh/card.request", "volcano.sh/card.quota", "volcano.sh/card.name"),
        *("volcano.sh/card.card", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone"),
        *("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"),
        *("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/config.mirror"),
        *("node.kubernetes.io/npu.chip.name", "node.kubernetes.io/instance-type"),
        *("training.kubeflow.org/replica-type", "training.kubeflow.org/operator-name"),
        *("topology.muster.sh/switch-position", *_NAMING),
    }
)

_AMOUNTS: Final = frozenset(
    {
        *("requests", "limits", "capacity", "allocatable", "capability", "deserved", "resource"),
        *("minResources", "overhead", "hard", "used", "allocated", "reserved", "inqueue"),
        *("allocatedResources", "cards"),
    }
)
"""Fields that map resources or cards to amounts."""

_TASKS: Final = ("minTaskMember", "taskStatusCount", "taskMinAvailable")
"""Fields that map tasks of a job to something."""

_LABELS: Final = frozenset(
    {
        *("labels", "annotations", "matchLabels", "nodeSelector", "selector", "exactLabels"),
        *("volumeAttributes", "parameters", "matchAttributes"),
    }
)

_NAMES: Final = {
    "nodeName": "Node",
    "nominatedNodeName": "Node",
    "queue": "Queue",
    "parent": "Queue",
    "priorityClassName": "PriorityClass",
    "claimName": CLAIM,
    "volumeName": VOLUME,
    "storageClassName": STORAGE_CLASS,
    "driver": DRIVER,
}
"""Fields to the kind that they name."""

_KEYS: Final = frozenset({"topologyKey", "key", "matchLabelKeys", "mismatchLabelKeys"})

_VOCABULARY: Final = frozenset(
    {
        *("apiVersion", "kind", "phase", "type", "status", "reason", "operator", "effect", "state"),
        *("restartPolicy", "preemptionPolicy", "policy", "mode", "protocol", "whenUnsatisfiable"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "conditionType", "action", "event", "events"),
        *(
            "imagePullPolicy",
            "dnsPolicy",
            "schedulerName",
            "qosClass",
            "unhealthyPodEvictionPolicy",
        ),
        *(
            "minAvailable",
            "maxUnavailable",
            "completionMode",
            "concurrencyPolicy",
            "divisor",
            "tier",
        ),
        *("sizeLimit", "medium", "uid", "resourceVersion", "podManagementPolicy", "apiGroup"),
        *("controllerUid", "operatingSystem", "architecture", "terminationMessagePolicy"),
        *("health", "resourceID", "accessModes", "volumeMode", "volumeBindingMode"),
        *("reclaimPolicy", "persistentVolumeReclaimPolicy", "volumeLifecycleModes"),
    }
)
"""Fields whose values are words of the API, amounts or UIDs."""

_KEPT: Final = (
    *("0.0.0.0", "127.0.0.1", "::"),  # noqa: S104  # compared, not bound
    *("mindie-ms-controller", "mindie-ms-coordinator"),
)
"""Free values that stay: addresses of no machine, and applications whose pods are restarted in their own way."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9./:%+_-]{0,62}")
_FIELD: Final = re.compile(r"[a-z][A-Za-z0-9]{0,63}")
_NUMERIC: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,9})?|true|false|True|False")
_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder()

_FAMILIES: Final = families_of(FEATURES)

Replace: TypeAlias = Callable[[str], str]


class Redaction:
    """Replaces names and free values. Without pseudonyms it collects them, and returns what it was given."""

    def __init__(self, kinds: frozenset[str], pseudonyms: Pseudonyms | None = None) -> None:
        self.texts: set[str] = set()
        self.namespaces: set[str] = set()
        self.node_names: dict[str, None] = {}
        """The names of all nodes that were seen, for patterns that select them."""
        self.ephemeral_claims: dict[str, tuple[str, str]] = {}
        """Names of the claims of ephemeral volumes (POD-VOLUME) to pod and volume."""
        self.overrides: dict[str, tuple[str, str]] = {}
        """Names of overrides to namespace and name of their pod groups."""
        self._kinds = kinds
        self._pseudonyms = pseudonyms

    def subject(self, subject: str) -> str:
        """Return the `Kind/namespace/name` of an object, or of something of muster's own, under pseudonyms."""
        kind, slash, rest = subject.partition("/")
        namespace, middle, name = rest.partition("/")
        if not slash or not middle or kind in _OF_NO_OBJECT:
            return subject
        if kind in ("Daemon", "Policy"):
            return f"{kind}//{name if name == 'built-in' else self._value(name)}"
        return f"{kind}/{self._namespace(namespace)}/{self._name(kind, name)}"

    def content(self, kind: str, content: bytes) -> bytes:
        """Return an object of a kind, as records call it, in the form that the log has."""
        manifest = _DECODER.decode(content)
        if not isinstance(manifest, dict):
            return content
        if kind == "Pod" and self._pseudonyms is None:
            self._note_ephemeral_claims(manifest)
        if kind == OVERRIDES and self._pseudonyms is None:
            self._note_override(manifest)
        return _CANONICAL.encode(self._object(kind, manifest))

    def body(self, kind: str, body: bytes) -> bytes:
        """Return the body of a record of a kind."""
        event = _DECODER.decode(body)
        assert isinstance(event, dict)
        if kind.startswith(("policy_changed.", "policy_stands.")):
            event["policy"] = self._policy(event.get("policy"))
            if "source" in event and event["source"] != "built-in":
                event["source"] = self._value(str(event["source"]))
            return _CANONICAL.encode(event)
        if is_standing(kind):
            return _CANONICAL.encode(self._standing(event))
        return _CANONICAL.encode(self._event(event))

    # Names and values

    def _value(self, text: str) -> str:
        """Return a free value."""
        if not text or _NUMERIC.fullmatch(text) or text in _KEPT:
            return text
        if "/" in text and len(text) <= KEY_CHARS_MAX and _is_known_key(text):
            return text  # A resource, a taint or a finalizer of Kubernetes or of a vendor.
        if self._pseudonyms is not None:
            return self._pseudonyms.of(text)
        if text not in WELL_KNOWN:
            self.texts.add(text)
        return text

    def _replaces(self, kind: str) -> bool:
        return ALL in self._kinds or kind in self._kinds

    def _name(self, kind: str, name: str) -> str:
        """Return the name of an object of a kind."""
        if kind == "Namespace":
            return self._namespace(name)
        if kind == "Node" and name:
            self.node_names[name] = None
        if kind == CLAIM and name in self.ephemeral_claims:
            pod, volume = self.ephemeral_claims[name]
            return f"{self._name('Pod', pod)}-{self._value(volume)}"  # As it is made of the pod.
        if kind.startswith("ConfigMap"):
            return self._config_map_name(name)
        if kind == OVERRIDES and name in self.overrides:
            namespace, group = self.overrides[name]
            return override_name(self._namespace(namespace), self._name("PodGroup", group))
        if kind == "PriorityClass" and name.startswith("system-"):
            return name
        if not self._replaces(kind) or (kind == "PodGroup" and name.startswith("podgroup-")):
            return name
        return self._text(name)

    def _text(self, text: str) -> str:
        """Return a name: also one that looks like a number is replaced."""
        if self._pseudonyms is not None:
            return self._pseudonyms.of(text)
        if text and text not in WELL_KNOWN:
            self.texts.add(text)
        return text

    def _namespace(self, name: str) -> str:
        if not self._replaces("Namespace"):
            return name
        if self._pseudonyms is not None:
            return self._pseudonyms.of(name, is_namespace=True)
        if name and name not in WELL_KNOWN:
            self.namespaces.add(name)
        return name

    def _key_of(self, kind: str, text: str) -> str:
        """Return a `namespace/name`, or a name alone."""
        namespace, slash, name = text.partition("/")
        if not slash:
            return self._name(kind, text)
        return f"{self._namespace(namespace)}/{self._name(kind, name)}"

    def _config_map_name(self, name: str) -> str:
        """Return the pseudonym of a ConfigMap: reports of nodes are named after them, others keep the names of their makers."""
        for prefix in _REPORT_PREFIXES:
            if name.startswith(prefix):
                return prefix + self._name("Node", name.removeprefix(prefix))
        return name

    def _label_key(self, key: str) -> str:
        return key if _is_known_key(key) else self._value(key)

    def _label_value(self, key: str, text: str) -> str:
        if key in _OF_NAMES:
            return self._name(_OF_NAMES[key], text)
        if key in _NAMESPACE_KEYS:
            return self._namespace(text)
        if key in _PATHS:
            return "/".join(self._name("Queue", one) for one in text.split("/"))
        if key == NAMES:
            return ",".join(self._namespace(one.strip()) for one in text.split(","))
        if key == SELECTOR:
            return self._selector(text)
        if key in ZONE_KEYS:
            return ZONE_SEPARATOR.join(self._value(one) for one in text.split(ZONE_SEPARATOR))
        if key in _FREE_VALUES or not _keeps_values(key):
            return self._value(text)
        return self._json(text) if key in _NAMING else text

    def _selector(self, text: str) -> str:
        """Return a selector of namespaces; one that cannot be read stays one."""
        found = selector_requirements(text)
        if isinstance(found, str):
            return "("
        return ",".join(
            requirement_text(
                structs.replace(
                    one,
                    key=self._label_key(one.key),
                    values=tuple([self._label_value(one.key, value) for value in one.values]),
                )
            )
            for one in found
        )

    def _image(self, text: str) -> str:
        """Return an image: its tag is replaced for itself, for `latest` is what stands for none."""
        path, slash, last = text.rpartition("/")
        name, colon, tag = last.partition(":")
        repository = self._value(f"{path}{slash}{name}")
        if not colon:
            return repository
        return f"{repository}:{tag if tag == 'latest' else self._value(tag)}"

    # Objects

    def _note_ephemeral_claims(self, pod: JsonObject) -> None:
        """Note the names that the claims of the ephemeral volumes of a pod have."""
        metadata, spec = pod.get("metadata"), pod.get("spec")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        volumes = spec.get("volumes") if isinstance(spec, dict) else None
        if not isinstance(name, str) or not isinstance(volumes, list):
            return
        for one in volumes:
            if not isinstance(one, dict) or one.get("ephemeral") is None:
                continue
            if isinstance(volume := one.get("name"), str):
                self.ephemeral_claims.setdefault(f"{name}-{volume}", (name, volume))

    def _note_override(self, manifest: JsonObject) -> None:
        """Note the pod group of an override that is named after it."""
        metadata, spec = manifest.get("metadata"), manifest.get("spec")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not isinstance(spec, dict):
            return
        namespace, group = spec.get("namespace"), spec.get("name")
        is_named = isinstance(namespace, str) and isinstance(group, str)
        if is_named and name == override_name(str(namespace), str(group)):
            self.overrides[name] = str(namespace), str(group)

    def _override_spec(self, spec: JsonObject) -> JsonObject:
        """Return the spec of a GroupOverride: which pod group it is of; the rest are numbers and the name of a pool."""
        namespace, name = spec.get("namespace"), spec.get("name")
        done = {**spec}
        if isinstance(namespace, str):
            done["namespace"] = self._namespace(namespace)
        if isinstance(name, str):
            done["name"] = self._name("PodGroup", name)
        return done

    def _object(self, kind: str, manifest: JsonObject) -> JsonObject:
        done: JsonObject = {}
        for field, value in manifest.items():
            if field == "metadata" and isinstance(value, dict):
                done[field] = self._metadata(kind, value)
            elif field == "spec" and kind == OVERRIDES and isinstance(value, dict):
                done[field] = self._override_spec(value)
            elif field == "data" and kind.startswith("ConfigMap"):
                done[field] = self._reports(value)
            else:
                done[self._field(field)] = self._any(field, value)
        return done

    def _metadata(self, kind: str, metadata: JsonObject) -> JsonObject:
        done: JsonObject = {}
        for field, value in metadata.items():
            if field == "name" and isinstance(value, str):
                done[field] = self._name(kind, value)
            elif field == "namespace" and isinstance(value, str):
                done[field] = self._namespace(value)
            elif field == "ownerReferences" and isinstance(value, list):
                done[field] = [self._owner(one) for one in value]
            else:
                done[self._field(field)] = self._any(field, value)
        return done

    def _owner(self, owner: Json) -> Json:
        if not isinstance(owner, dict):
            return self._any("", owner)
        name, kind = owner.get("name"), owner.get("kind")
        done = {field: self._any(field, value) for field, value in owner.items() if field != "name"}
        if isinstance(name, str):
            done["name"] = self._owner_name(str(kind), name)
        return done

    def _owner_name(self, kind: str, name: str) -> str:
        is_watched = kind in _OWNERS or self._replaces(kind)
        return self._name(kind, name) if is_watched else self._value(name)

    def _field(self, field: str) -> str:
        """Return the name of a field; what is not written like one is the key of a map, and free."""
        return field if _FIELD.fullmatch(field) else self._label_key(field)

    def _any(self, field: str, value: Json) -> Json:
        match value:
            case dict():
                return self._map(field, value)
            case list():
                if field == "members":
                    return [self._member(one) for one in value]
                return [self._any(field, one) for one in value]
            case str():
                return self._string(field, value)
            case _:
                return value

    def _map(self, field: str, value: JsonObject) -> Json:
        if field in _AMOUNTS:
            return value
        if field == "claimRef":
            return self._metadata(CLAIM, value)
        if field in _TASKS:
            return {self._value(name): self._any("", one) for name, one in value.items()}
        if field in _LABELS and all(isinstance(one, str) for one in value.values()):
            return {
                self._label_key(key): self._label_value(key, str(one)) for key, one in value.items()
            }
        key = value.get("key")
        done: JsonObject = {}
        for name, one in value.items():
            if isinstance(key, str) and name in ("value", "values"):
                listed = one if isinstance(one, list) else [one]
                known = [self._label_value(key, x) if isinstance(x, str) else x for x in listed]
                done[name] = known if isinstance(one, list) else known[0]
            else:
                done[self._field(name)] = self._any(name, one)
        return done

    def _string(self, field: str, text: str) -> str:
        if field in _NAMES:
            return self._name(_NAMES[field], text)
        if field in _KEYS:
            return self._label_key(text)
        if field == "namespaces":
            return self._namespace(text)
        if field in ("image", "names", "imageID"):
            return self._image(text)
        if field == "message" and (rejection := _FAMILIES.rejection_in(text)):
            return rejection
        is_time = field.endswith(("Time", "Timestamp", "time"))
        if (field in _VOCABULARY or is_time) and _WORD.fullmatch(text):
            return text
        return self._value(text)

    def _member(self, member: Json) -> Json:
        """Return an entry of `HyperNode.spec.members`."""
        selector = member.get("selector") if isinstance(member, dict) else None
        if not isinstance(member, dict) or not isinstance(selector, dict):
            return self._any("", member)
        kind = str(member.get("type", ""))
        done: JsonObject = {}
        for field, value in selector.items():
            name = value.get("name") if isinstance(value, dict) else None
            pattern = value.get("pattern") if isinstance(value, dict) else None
            if field == "exactMatch" and isinstance(name, str):
                done[field] = {"name": self._name(kind, name)}
            elif field == "regexMatch" and isinstance(pattern, str):
                done[field] = {"pattern": self._pattern(pattern)}
            else:
                done[self._field(field)] = self._any(field, value)
        return {**member, "selector": done}

    def _pattern(self, pattern: str) -> str:
        """Return a pattern that matches the pseudonyms of the nodes of the log that it matches now."""
        if not self._replaces("Node"):
            return pattern
        if self._pseudonyms is None or len(pattern) > PATTERN_BYTES_MAX:
            return pattern if self._pseudonyms is None else self._value("")
        try:
            compiled = re2.compile(pattern)
        except re2.error:
            return "["  # Not a valid pattern either.
        names = [one for one in self.node_names if compiled.search(one)]
        return f"^({'|'.join(re.escape(self._pseudonyms.of(one)) for one in names)})$"

    def _reports(self, data: Json) -> Json:
        """Return the data of a ConfigMap with reports: JSON as text, in which names of nodes and addresses are replaced."""
        if not isinstance(data, dict):
            return data
        return {key: self._json(one) if isinstance(one, str) else one for key, one in data.items()}

    def _json(self, text: str) -> str:
        """Return a text that stays, but for names and values in it where it is JSON."""
        if text[:1] not in ("{", "["):
            return text
        try:
            document = _DECODER.decode(text.encode())
            done = self._report(document)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text
        return text if done == document else _CANONICAL.encode(done).decode()

    def _report(self, value: Json) -> Json:
        match value:
            case dict():
                return {self._known(key): self._report(one) for key, one in value.items()}
            case list():
                return [self._report(one) for one in value]
            case str():
                return self._known(value)
            case _:
                return value

    def _known(self, text: str) -> str:
        """Return a text of a report or a policy: replaced if it is a name or a value that stands elsewhere too."""
        for prefix in _REPORT_PREFIXES:
            if text.startswith(prefix):
                return prefix + self._known(text.removeprefix(prefix))
        if self._pseudonyms is None or not self._pseudonyms.knows(text):
            return text
        return self._pseudonyms.of(text)

    # Events and policies

    def _event(self, event: JsonObject) -> JsonObject:
        done = {field: self._event_field(field, value) for field, value in event.items()}
        limit = event.get("limit")
        is_claim = event.get("code") in (*CLAIM_CODES, *REACH_CODES) and isinstance(limit, str)
        if is_claim and "/" in str(limit):
            done["limit"] = self._key_of(CLAIM, str(limit))
        return done

    def _event_field(self, field: str, value: Json) -> Json:
        if isinstance(value, list):
            if field == "network":
                pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
                return [[str(k), self._label_value(str(k), str(v))] for k, v in pairs]
            if field == "changed_by" and value:
                return [self._value(str(value[0])), *value[1:]]
            if field == "members":
                return [self._restarted_pod(one) for one in value]
            return [self._event_field(field, one) for one in value]
        if isinstance(value, dict):
            return self._event(value) if field not in ("cards", "heartbeats", "counts") else value
        if not isinstance(value, str) or not value:
            return value
        if field in _EVENT_KEYS:
            return self._key_of(_EVENT_KEYS[field], value)
        if field == "subject":
            return self.subject(value)
        if field == "requeue_on" and value.startswith(VOLUMES) and not value.endswith("*"):
            return VOLUMES + self.subject(value.removeprefix(VOLUMES))
        if field == "limit":
            return self._known(value)  # A resource, a card, or a queue.
        return self._value(value) if field in _EVENT_TEXTS else value

    def _standing(self, event: JsonObject) -> JsonObject:
        """Return a record of a base, or a part of one: beside what all events have, names and values that are decided by."""
        done: JsonObject = {}
        for field, value in event.items():
            if isinstance(value, dict):
                done[field] = self._standing(value)
            elif isinstance(value, list):
                done[field] = self._standing_list(field, value)
            elif isinstance(value, str) and field in _STANDING_TEXTS:
                done[field] = self._value(value)
            elif isinstance(value, str) and field == "namespace":
                done[field] = self._namespace(value)
            elif isinstance(value, str) and field in ("tenant", "closed_tenant"):
                done[field] = self._tenant(value)
            elif field == "task":
                done[field] = self._known(str(value))
            elif field == "topology_key":
                done[field] = self._label_key(str(value))
            else:
                done[field] = self._event_field(field, value)
        is_claim = done.get("code") in (*CLAIM_CODES, *REACH_CODES) and "/" in str(
            done.get("limit")
        )
        if is_claim:
            done["limit"] = self._key_of(CLAIM, str(event["limit"]))
        return done

    def _standing_list(self, field: str, value: list[Json]) -> Json:
        pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
        match field:
            case "labels" | "plugin_labels" | "options" | "assignments":
                return [
                    [self._label_key(str(key)), self._label_value(str(key), str(text))]
                    for key, text in pairs
                ]
            case "current" | "reported":
                return [[code, self._value(str(text))] for code, text in pairs]
            case "min_tasks":
                return [[self._value(str(name)), number] for name, number in pairs]
            case "quota_released":
                return [[self._name("Queue", str(name)), resources] for name, resources in pairs]
            case "namespaces":
                return [self._namespace(str(one)) for one in value]
            case "other_labels":
                return [self._label_key(str(one)) for one in value]
            case "volumes_changed":
                return [self.subject(str(one)) for one in value]
            case "selector" | "namespace_selector":
                return [self._requirement(one) for one in value]
            case "members" | "network":
                return self._event_field(field, value)
            case _:
                return [
                    self._standing(one) if isinstance(one, dict) else self._event_field(field, one)
                    for one in value
                ]

    def _requirement(self, requirement: Json) -> Json:
        """Return a requirement of a selector of labels, with its key and its values."""
        assert isinstance(requirement, dict)
        key, done = str(requirement["key"]), {**requirement}
        done["key"] = self._label_key(key)
        if isinstance(values := requirement.get("values"), list):
            done["values"] = [self._label_value(key, str(one)) for one in values]
        return done

    def _tenant(self, tenant: str) -> str:
        """Return a tenant: a namespace, or a label of namespaces with its value."""
        key, equals, value = tenant.partition("=")
        if not equals:
            return self._namespace(tenant)
        return f"{self._label_key(key)}={self._label_value(key, value)}"

    def _restarted_pod(self, member: Json) -> Json:
        """Return an entry of a record of a restart: an array of pod, UID, node, rank, fault and detail."""
        if not isinstance(member, list) or len(member) < 3:
            return member
        pod, uid, node, *rest = member
        if len(rest) > 2 and isinstance(rest[2], str):
            rest[2] = self._value(rest[2])
        return [self._key_of("Pod", str(pod)), uid, self._name("Node", str(node)), *rest]

    def _policy(self, policy: Json, *, is_argument: bool = False) -> Json:
        """Return a policy: in arguments and selectors, names and values that stand in objects are replaced."""
        match policy:
            case dict():
                done: JsonObject = {}
                for key, value in policy.items():
                    if key in _LABELS and isinstance(value, dict):
                        done[key] = self._map(key, value)
                    elif key == "tenants" and isinstance(value, dict):
                        known = {
                            k: self._label_key(str(v)) for k, v in value.items() if k == "label"
                        }
                        done[key] = {**value, **known}
                    elif key == "queues" and isinstance(value, list):
                        done[key] = [self._queue_rule(one) for one in value]
                    elif key == "namespaces" and isinstance(value, list) and not is_argument:
                        done[key] = [self._namespace(str(one)) for one in value]
                    elif key == "namespaceSelector" and not is_argument:
                        done[key] = self._any(key, value)
                    else:
                        within = is_argument or key == "arguments"
                        named = (
                            key if not is_argument or _FIELD.fullmatch(key) else self._known(key)
                        )
                        done[named] = self._policy(value, is_argument=within)
                return done
            case list():
                return [self._policy(one, is_argument=is_argument) for one in policy]
            case str():
                return self._known(policy) if is_argument else policy
            case _:
                return policy

    def _queue_rule(self, rule: Json) -> Json:
        """Return an entry of `queues`: of a placement strategy the name of a queue, of the policy a rule for one."""
        if not isinstance(rule, dict):
            return self._name("Queue", str(rule))
        done = self._policy(rule)
        assert isinstance(done, dict)
        name = rule.get("name")
        return {**done, "name": self._name("Queue", name)} if isinstance(name, str) else done


_REPORT_PREFIXES: Final = ("mindx-dl-deviceinfo-", "mindx-dl-nodeinfo-", "mindx-dl-switchinfo-")
_OWNERS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment", "Job", "PodGroup", "Node")
_EVENT_KEYS: Final = {
    "pod": "Pod",
    "pod_group": "PodGroup",
    "in_favour_of": "PodGroup",
    "looked": "PodGroup",
    "queue": "Queue",
    "node": "Node",
    "assumed": "Node",
    "nodes_freed": "Node",
    "nodes_updated": "Node",
    "groups": "PodGroup",
    "faulty_groups": "PodGroup",
    "quota_released_at": "Queue",
    "victims_added": "Queue",
}
"""Fields of events to the kind that they name."""
_OF_NO_OBJECT: Final = ("Cycle", "Action", "Watch", "Pool", "Workload")
"""Kinds of subjects whose names are none of objects."""
_STANDING_TEXTS: Final = frozenset({"role", "problem"})
_EVENT_TEXTS: Final = frozenset({"message", "detail", "holder", "path"})


def _is_known_key(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash:
        return key in _PLAIN_KEYS or key in _OF_NAMES
    return key in _PLAIN_KEYS or _is_within(domain, _DOMAINS)


def _keeps_values(key: str) -> bool:
    """Return True if the values of a key are words of its maker."""
    domain, slash, _ = key.partition("/")
    if key in _KEPT_VALUES or (not slash and key in _PLAIN_KEYS):
        return True
    return bool(slash) and _is_within(domain, _VENDORS) and not domain.startswith("topology.")


def _is_within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in domains)
