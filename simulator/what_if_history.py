"""What a log says of a cluster before and after the position at which a branch begins.

Changes after that position are told apart by what brought them about. Changes from outside become steps of the branch:
objects that other clients create, change and delete. Changes that answer a decision are left out, because simulated
kubelets and controllers bring them about once more. Kept of them is how long each pod took to start, run and stop
(`simulator/what_if_times.py`), and which objects the controllers created (`simulator/recorded_children.py`).
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.eviction import EvictionDecided
from events.decisions.reschedule import RescheduleDecided
from events.duration import SECOND
from events.errors import UsageError
from events.limits import decode_deep
from events.normalize import Json, JsonObject
from events.normalize_config_map import CONFIG_MAP
from events.outcome import EvictionFailed, PodBound, PodEvicted, PodGroupUpdated
from events.record import Record
from events.union import Event
from projections.fault_options import FORCE
from projections.kinds.workload import REPLACING
from simulator.controllers import VOLCANO
from simulator.device_plugin import DOMAINS
from simulator.job_events import TASK_SPEC
from simulator.kubelet import is_ready
from simulator.manifest import KINDS, Kind, Manifest
from simulator.manifest_fields import (
    changed,
    controller_of,
    is_terminal,
    is_terminating,
    list_at,
    node_of,
    phase_of,
    section,
    text_at,
    whole_at,
)
from simulator.object_factory import is_finished
from simulator.object_store import resource_of
from simulator.recorded_children import RecordedChild, RecordedChildren
from simulator.stateful_set import revision_of
from simulator.volcano_job_constants import RESTART_PARTITION, RESTART_POD, RESTART_TASK
from simulator.volcano_job_phases import FINISHED
from simulator.what_if_steps import PolicyStep, RecordedStep, Verb

ObjectName: TypeAlias = tuple[str, str, str]
"""Resource, namespace and name."""

_KINDS: Final[dict[str, Kind]] = {resource_of(kind): kind for kind in KINDS}
_GROUP_OF_CONTROLLER: Final = "podgroup-"
"""Beginning of the names of pod groups that Volcano's podgroup controller creates."""
_STATEFUL_SET: Final = "StatefulSet"
_DECODER: Final = msgspec.json.Decoder(dict)
_RESTARTS: Final = (RESTART_TASK, RESTART_POD, RESTART_PARTITION)
_PHASE_DELAY_NS: Final = 5 * SECOND
"""How long after the deletion of its pods a Volcano Job may show its new phase."""
_NOT_PATCHED: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")


class RecordedPod(Struct):
    """A pod over its recorded life. Times are those of the records; None for what is not recorded."""

    seen_ns: int
    owner: str = ""
    """UID of its workload and its role in it."""
    role: str = ""
    bound_ns: int | None = None
    running_ns: int | None = None
    ended_ns: int | None = None
    """When it ended by itself: not evicted, deleted, or ended by its node."""
    exit_code: int = 0
    rejection: tuple[str, str, str] | None = None
    """Node, reason and message, if its node rejected it."""
    is_evicted: bool = False
    is_forced: bool = False
    """Whether it was deleted at once, without its grace period."""
    stopping_ns: int | None = None
    removed_ns: int | None = None


class RecordedHistory:
    """Takes all records of a log in order. `begin_branch` is called behind the last one that stands. Of a log that begins with
    facts, it takes first the records of what stood there (`daemon/queries/bases.py`), and then `begin_log` is called.

    Records of objects in `dropped` after that position are left out; an empty name stands for all of its kind.
    """

    def __init__(self, dropped: frozenset[ObjectName] = frozenset()) -> None:
        self.pods: dict[str, RecordedPod] = {}
        self.children = RecordedChildren()
        self.made: Counter[str] = Counter()
        """Pods created before the branch, by the UID of their workload."""
        self._all_steps: list[RecordedStep | PolicyStep] = []
        self._doubtful: dict[str, list[int]] = {}
        """Indexes of deletions of pods, by the UID of their workload."""
        self._undone: dict[int, None] = {}
        self.scheduler_names: tuple[str, ...] = ()
        self.made_ns: dict[str, int] = {}
        """When each workload was first recorded, by UID."""
        self.has_podgroup_controller = False
        self.start_ns: int | None = None
        """When the log began."""
        self.decider = 0
        """Version of the deciding code of the last cycle of the log."""
        self.revision = 0
        """The highest resource version of any object before the branch."""
        self.end_ns = 0
        """Time of the last record."""
        self.dropped: dict[ObjectName, int] = dict.fromkeys(dropped, 0)
        """How many records were left out, by object."""
        self._now: dict[str, tuple[ObjectName, bytes]] = {}
        """Name and last content of each object, by UID."""
        self._there: dict[str, tuple[ObjectName, Manifest]] = {}
        """The same where the branch begins."""
        self._contents: list[bytes] = []
        self._workloads: dict[str, str] = {}
        self._live: Counter[str] = Counter()
        """Pods that exist, have not ended and are not being deleted, by the UID of their workload."""
        self._nodes: dict[str, str] = {}
        """Nodes, to their UIDs."""
        self._is_after = False
        self._batch = 0
        self._period_ns = 0
        self._next_cycle_ns = 0
        """When a daemon holds its next cycle at the earliest; as its loop schedules it."""
        self._unheld_ns: int | None = None
        """When a cycle could have been held and has not been, if that is the time of the last batch."""
        self._bound: dict[str, str] = {}
        """Pods whose binding was accepted and not observed yet, to their nodes."""
        self._evicted: dict[str, None] = {}
        """Pods whose eviction was accepted and not observed yet."""
        self._phases: dict[tuple[str, str], str] = {}
        """Pod groups whose new phase was accepted and not observed yet."""
        self._child_of: dict[str, RecordedChild] = {}

    @property
    def objects(self) -> list[tuple[Kind, Manifest]]:
        """The objects where the branch begins, kind by kind, as the API server had them."""
        found = [(_KINDS[name[0]], manifest) for name, manifest in self._there.values()]
        order = {kind: at for at, kind in enumerate(KINDS)}
        return sorted(found, key=lambda one: order[one[0]])

    @property
    def steps(self) -> list[RecordedStep | PolicyStep]:
        """What happened from outside after the beginning of the branch, in order."""
        return [one for at, one in enumerate(self._all_steps) if at not in self._undone]

    @property
    def contents(self) -> dict[str, bytes]:
        """The same objects as the log has them, by digest."""
        return {sha256(content).hexdigest(): content for content in self._contents}

    @property
    def next_cycle_ns(self) -> int:
        """When the recorded daemon would have held the next cycle, if one was due."""
        return self._next_cycle_ns if self._unheld_ns is None else self._unheld_ns

    @property
    def seen_ns(self) -> dict[str, int]:
        """When each pod that is there where the branch begins was first recorded, by UID."""
        return {uid: self.pods[uid].seen_ns for uid in self._there if uid in self.pods}

    @property
    def names(self) -> list[tuple[Kind, Manifest]]:
        """All objects that a change may name: those where the branch begins, and those created from outside later."""
        created = [
            (step.kind, step.content)
            for step in self.steps
            if isinstance(step, RecordedStep) and step.verb in (Verb.CREATE, Verb.REPLACE)
        ]
        return [*self.objects, *created]

    @property
    def stopping(self) -> Mapping[str, None]:
        """UIDs of pods whose eviction was accepted where the branch begins, and not observed."""
        return self._evicted

    def add(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take a record. Raises UsageError for an object that was redacted."""
        at_ns = record.recorded_at_ns
        if self.start_ns is None:
            self.start_ns = at_ns
        self.end_ns = max(self.end_ns, at_ns)
        if not self._is_after and record.batch != self._batch:
            self._batch = record.batch
            self._pass_time(at_ns)
        match event:
            case ObjectObserved() | ObjectDeleted():
                if content is None:
                    raise UsageError(
                        f"position {record.position}: the object of {record.subject} was redacted; "
                        "a branch needs it"
                    )
                self._on_object(record, event, content)
            case PodBound():
                self._pod(event.uid, at_ns).bound_ns = at_ns
                if not self._is_after:
                    self._bound[event.uid] = event.node
            case EvictionDecided():
                for one in event.evictions:
                    pod = self._pod(one.uid, at_ns)
                    pod.is_evicted = True
                    pod.is_forced = isinstance(event, RescheduleDecided) and event.mode == FORCE
            case EvictionFailed():
                self._pod(event.uid, at_ns).is_evicted = False
            case PodEvicted():
                pod = self._pod(event.uid, at_ns)
                pod.stopping_ns = at_ns if pod.stopping_ns is None else pod.stopping_ns
                if not self._is_after:
                    self._evicted[event.uid] = None
            case PodGroupUpdated() if not self._is_after:
                namespace, _, name = event.pod_group.partition("/")
                self._phases[namespace, name] = event.phase
            case DaemonStarted() if not self._is_after:
                self.scheduler_names = event.scheduler_names
                self._period_ns, self._next_cycle_ns = event.period_ns, at_ns
            case CycleOpened():
                self.decider = event.decider
                if not self._is_after:
                    self._unheld_ns = None
            case PolicyChanged() if self._is_after:
                self._all_steps.append(PolicyStep(at_ns, event))
            case _:
                pass

    def begin_log(self) -> None:
        """Take the records so far as those of what stood before the first record of the log."""
        self.start_ns = None

    def _pass_time(self, at_ns: int) -> None:
        """Schedule cycles as the loop of a daemon does: in its first turn at or after the time of the next one."""
        period, due = self._period_ns, self._next_cycle_ns
        if period and at_ns >= due:
            self._unheld_ns = at_ns
            self._next_cycle_ns = due + max(1, -(-(at_ns + 1 - due) // period)) * period
        elif at_ns != self._unheld_ns:
            self._unheld_ns = None

    def begin_branch(self) -> None:
        """Keep the objects as they are; the records that follow become steps, or give times."""
        self._is_after = True
        self._contents = [content for _, content in self._now.values()]
        for uid, (name, content) in self._now.items():
            if name[0] in _KINDS:
                manifest = _decoded(content)
                if (phase := self._phases.get(name[1:])) and name[0] == "PodGroup":
                    manifest = changed(manifest, "status", phase=phase)
                elif node := self._bound.get(uid):
                    manifest = changed(manifest, "spec", nodeName=node)
                self._there[uid] = name, manifest
        self._evicted = {uid: None for uid in self._evicted if uid in self._now}

    def _pod(self, uid: str, at_ns: int) -> RecordedPod:
        return self.pods.setdefault(uid, RecordedPod(at_ns))

    def _on_object(
        self, record: Record, event: ObjectObserved | ObjectDeleted, content: bytes
    ) -> None:
        kind, namespace, name = record.subject.split("/", 2)
        resource = CONFIG_MAP if kind.startswith(f"{CONFIG_MAP}.") else kind
        named: ObjectName = resource, namespace, name
        had = self._now.get(event.uid)
        is_deleted = isinstance(event, ObjectDeleted)
        if is_deleted:
            self._now.pop(event.uid, None)
        else:
            self._now[event.uid] = named, content
        self._index_object(named, event.uid, is_deleted=is_deleted)
        if resource in REPLACING:
            self.made_ns.setdefault(event.uid, record.recorded_at_ns)
        if not self._is_after:
            self._record_progress(named, event)
            if resource not in ("Pod", _STATEFUL_SET):
                return
        manifest = _decoded(content)
        before = None if had is None else _decoded(had[1])
        if resource == "Pod":
            self._record_pod(event.uid, before, None if is_deleted else manifest, record)
        elif resource == _STATEFUL_SET:
            self._record_revision(manifest)
        if not self._is_after:
            return
        if (left_out := self._dropped_as(named)) is not None:
            self.dropped[left_out] += 1
        elif resource in _KINDS:
            self._add_steps(_Change(record, named, event.uid, before, manifest, is_deleted))

    def _dropped_as(self, named: ObjectName) -> ObjectName | None:
        """Return the name in `dropped` that is that of an object, or of its kind; None if it is kept."""
        kind: ObjectName = named[0], "", ""
        return next((one for one in (named, kind) if one in self.dropped), None)

    def _record_progress(self, named: ObjectName, event: ObjectObserved | ObjectDeleted) -> None:
        if event.resource_version.isdecimal():
            self.revision = max(self.revision, int(event.resource_version))
        if named[0] == "PodGroup":
            self._phases.pop(named[1:], None)

    def _index_object(self, named: ObjectName, uid: str, *, is_deleted: bool) -> None:
        resource, _, name = named
        if resource in REPLACING and not is_deleted:
            self._workloads[uid] = resource
        elif resource == "Node" and not is_deleted:
            self._nodes[name] = uid
        elif resource == "Node":
            self._nodes.pop(name, None)
        elif resource == "PodGroup" and name.startswith(_GROUP_OF_CONTROLLER):
            self.has_podgroup_controller = True

    def _record_revision(self, stateful_set: Manifest) -> None:
        """Record how the controller named the revision of the present template, once it has observed it."""
        status = section(stateful_set, "status")
        recorded, observed = text_at(status, "updateRevision"), status.get("observedGeneration")
        is_current = observed in (None, section(stateful_set, "metadata").get("generation"))
        if recorded and is_current:
            self.children.add_revision(revision_of(stateful_set), recorded)

    # Times of pods

    def _record_pod(
        self, uid: str, before: Manifest | None, after: Manifest | None, record: Record
    ) -> None:
        at_ns = record.recorded_at_ns
        pod = self._pod(uid, at_ns)
        workload = controller_of(after or before or {})
        self._live[workload] += _is_live(after) - _is_live(before)
        if after is None:
            pod.removed_ns = at_ns
            self._see_eviction(uid)
            return
        if before is None:
            pod.owner = controller_of(after)
            pod.role = text_at(section(after, "metadata", "annotations"), TASK_SPEC)
            if pod.owner and not self._is_after:
                self.made[pod.owner] += 1
        if node_of(after):
            pod.bound_ns = at_ns if pod.bound_ns is None else pod.bound_ns
            self._see_binding(uid, after)
        if is_terminating(after):
            pod.stopping_ns = at_ns if pod.stopping_ns is None else pod.stopping_ns
            self._see_eviction(uid)
        phase = phase_of(after)
        if phase == "Running" and pod.running_ns is None:
            pod.running_ns = at_ns
        is_new = before is None or phase_of(before) != phase
        if phase in ("Succeeded", "Failed") and is_new and not pod.is_evicted:
            self._record_end(pod, after, at_ns)

    def _record_end(self, pod: RecordedPod, after: Manifest, at_ns: int) -> None:
        """Record how a pod ended. A status with a reason was written by the node, not by the end of the containers."""
        if is_terminating(after):
            return
        status = section(after, "status")
        if reason := text_at(status, "reason"):
            if pod.running_ns is None and node_of(after):
                pod.rejection = node_of(after), reason, text_at(status, "message")
            return
        pod.ended_ns = at_ns
        pod.exit_code = _exit_code(after) if phase_of(after) == "Failed" else 0

    def _see_eviction(self, uid: str) -> None:
        if not self._is_after:
            self._evicted.pop(uid, None)

    def _see_binding(self, uid: str, after: Manifest) -> None:
        """Use the first observation of a pod on its node for a pod whose binding was not observed yet where the branch
        begins."""
        if self._bound.pop(uid, None) is not None and self._is_after and uid in self._there:
            pending = changed(after, "status", phase="Pending")
            self._there[uid] = self._there[uid][0], pending

    # What came from outside

    def _add_steps(self, one: "_Change") -> None:
        owner = controller_of(one.manifest)
        owner = owner if owner in self._workloads else ""
        if one.named[0] == "Pod":
            self._add_pod_steps(one, owner)
        elif one.named[0] in REPLACING or one.named[0] == "PodGroup":
            self._add_workload_steps(one, owner)
        elif one.is_deleted:
            self._step(one, Verb.REMOVE)
        elif one.before is None:
            self._step(one, Verb.CREATE, one.manifest)
        else:
            self._patch(one, merge_patch(one.before, one.manifest))

    def _add_pod_steps(self, one: "_Change", owner: str) -> None:
        is_ours = text_at(section(one.manifest, "spec"), "schedulerName") in self.scheduler_names
        pod = self.pods[one.uid]
        if one.before is None and not one.is_deleted:
            if owner:
                self._add_child(one, owner)
            else:
                self._step(one, Verb.CREATE, one.manifest)
        elif one.is_deleted or self._is_first_of_deletion(one):
            node = node_of(one.manifest)
            is_of_node = bool(node) and node not in self._nodes
            is_stopping = one.before is not None and is_terminating(one.before)
            is_inside = pod.is_evicted or is_of_node or (is_stopping and is_ours)
            if not is_inside and not (owner and self._is_by_controller(owner)):
                self._step(one, Verb.DELETE_POD, node=self._faulty_node(node))
                if owner:
                    self._doubtful.setdefault(owner, []).append(len(self._all_steps) - 1)
        elif not is_ours:
            self._step(one, Verb.REPLACE, one.manifest)
        elif _is_ended_by_node(one, pod):
            status: JsonObject = dict(section(one.manifest, "status"))
            self._step(one, Verb.END_POD, {"status": status}, node=node_of(one.manifest))
        elif one.record.cause is None and one.before is not None:
            self._patch(one, _pod_patch(one.before, one.manifest))

    def _faulty_node(self, name: str) -> str:
        """Return the node if it was cordoned or not ready, so that pods were deleted because they were there; else
        nothing."""
        _, content = self._now.get(self._nodes.get(name, ""), (None, b"{}"))
        node = _decoded(content)
        is_cordoned = section(node, "spec").get("unschedulable") is True
        return name if is_cordoned or not is_ready(node) else ""

    def _is_by_controller(self, owner: str) -> bool:
        """Return whether the controller of a workload deleted a pod: there are more than the workload wants, or a policy
        of a Volcano Job restarts pods."""
        _, content = self._now.get(owner, (None, b""))
        if not content:
            return True
        workload: Manifest = _decoded(content)
        spec, live = section(workload, "spec"), self._live[owner]
        if self._workloads[owner] == VOLCANO:
            wanted = sum(whole_at(task, "replicas", 1) for task in list_at(spec, "tasks"))
            restarts = any(one.encode() in content for one in _RESTARTS)
            return restarts or not _keeps_pods(workload) or live >= wanted
        if self._workloads[owner] == "Job":
            is_over = is_finished(workload) or spec.get("suspend") is True
            return is_over or live >= whole_at(spec, "parallelism", 1)
        return live >= whole_at(spec, "replicas", 1)

    def _is_first_of_deletion(self, one: "_Change") -> bool:
        return (
            one.before is not None
            and is_terminating(one.manifest)
            and not is_terminating(one.before)
        )

    def _add_workload_steps(self, one: "_Change", owner: str) -> None:
        """Keep status only of pod groups, where another client wrote it: simulated controllers write the rest."""
        resource, _, name = one.named
        is_of_controller = resource == "PodGroup" and name.startswith(_GROUP_OF_CONTROLLER)
        if is_of_controller or (owner and (one.before is not None or one.is_deleted)):
            return
        if resource == VOLCANO and (one.is_deleted or not _keeps_pods(one.manifest)):
            self._undo_deletions(one)
        if one.is_deleted:
            is_over = resource != "PodGroup" and is_workload_finished(one.manifest)
            if not (is_over and "ttlSecondsAfterFinished" in section(one.manifest, "spec")):
                self._step(one, Verb.REMOVE, is_finished=is_over)
        elif one.before is not None:
            patch = merge_patch(one.before, one.manifest)
            if resource != "PodGroup" or one.record.cause is not None:
                patch.pop("status", None)
            self._patch(one, patch)
        elif owner:
            self._add_child(one, owner)
        elif resource == "PodGroup":
            self._step(one, Verb.CREATE, one.manifest)
        else:
            content = {key: value for key, value in one.manifest.items() if key != "status"}
            self._step(one, Verb.CREATE, content)

    def _undo_deletions(self, one: "_Change") -> None:
        """Leave out deletions of pods that turn out to be those of the controller: it changes the phase of a Volcano Job
        when it has deleted the pods."""
        for at in self._doubtful.pop(one.uid, ()):
            if self._all_steps[at].at_ns + _PHASE_DELAY_NS >= one.record.recorded_at_ns:
                self._undone[at] = None

    def _add_child(self, one: "_Change", owner: str) -> None:
        child = RecordedChild(one.named[0], one.manifest, one.record.recorded_at_ns)
        self._child_of[one.uid] = child
        self.children.add(owner, child)

    def _patch(self, one: "_Change", patch: JsonObject) -> None:
        if not patch:
            return
        child = self._child_of.get(one.uid)
        if child is None:
            self._step(one, Verb.PATCH, patch)
        else:
            child.changes.append((one.record.recorded_at_ns - child.at_ns, patch))

    def _step(
        self,
        one: "_Change",
        verb: Verb,
        content: "JsonObject | None" = None,
        *,
        node: str = "",
        is_finished: bool = False,
    ) -> None:
        resource, namespace, name = one.named
        at_ns = one.record.recorded_at_ns
        self._all_steps.append(
            RecordedStep(
                at_ns,
                verb,
                _KINDS[resource],
                namespace,
                name,
                one.uid,
                content or {},
                node,
                is_finished,
            )
        )


class _Change(Struct, frozen=True):
    """One recorded change of an object."""

    record: Record
    named: ObjectName
    uid: str
    before: Manifest | None
    manifest: Manifest
    is_deleted: bool


def _decoded(content: bytes) -> Manifest:
    return decode_deep(content, _DECODER.decode)


def _is_ended_by_node(one: _Change, pod: RecordedPod) -> bool:
    """Return whether the node of a pod ended it while it ran, as when it shuts down or lacks memory."""
    is_over = is_terminal(one.manifest) and (one.before is None or not is_terminal(one.before))
    has_reason = bool(text_at(section(one.manifest, "status"), "reason"))
    return is_over and has_reason and pod.running_ns is not None and not pod.is_evicted


def merge_patch(before: Mapping[str, Json], after: Mapping[str, Json]) -> JsonObject:
    """Return the JSON merge patch (RFC 7386) from one object to another."""
    patch: JsonObject = {key: None for key in before if key not in after}
    for key, value in after.items():
        had = before.get(key)
        if isinstance(value, dict) and isinstance(had, dict):
            if inner := merge_patch(had, value):
                patch[key] = inner
        elif key not in before or had != value:
            patch[key] = value
    return patch


def _pod_patch(before: Manifest, after: Manifest) -> JsonObject:
    """Return how another client changed metadata and spec of a pod. Annotations of a device plugin on a pod
    that has a node follow from the placement."""
    metadata = merge_patch(section(before, "metadata"), section(after, "metadata"))
    for key in _NOT_PATCHED:
        metadata.pop(key, None)
    annotations = {
        key: value
        for key, value in section(metadata, "annotations").items()
        if not node_of(after) or not key.startswith(DOMAINS)
    }
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    spec = merge_patch(section(before, "spec"), section(after, "spec"))
    parts: JsonObject = {"metadata": metadata, "spec": spec}
    return {key: part for key, part in parts.items() if part}


def _keeps_pods(volcano_job: Manifest) -> bool:
    phase = text_at(section(volcano_job, "status", "state"), "phase")
    return phase in ("", "Pending", "Running")


def _is_live(pod: Manifest | None) -> bool:
    return pod is not None and not is_terminal(pod) and not is_terminating(pod)


def _exit_code(pod: Manifest) -> int:
    codes = [
        whole_at(section(one, "state", "terminated"), "exitCode", 0)
        for one in list_at(section(pod, "status"), "containerStatuses")
    ]
    return next((code for code in codes if code), 1)


def is_workload_finished(workload: Manifest) -> bool:
    """Return whether a Job or Volcano Job has ended."""
    state = text_at(section(workload, "status", "state"), "phase")
    return is_finished(workload) or state in FINISHED
