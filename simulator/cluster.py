"""The simulated cluster: a synchronous model in virtual time, with the API calls that muster makes.

Time stands still between calls of `advance`. At one moment the steps of the scenario come first, then what
is due on the nodes, each followed by the reactions of the controllers. The result depends only on the
scenario and the calls: the same calls give the same cluster.
"""

from bisect import insort
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from events.duration import SECOND
from events.errors import DocumentError
from events.messages import (
    Accepted,
    AnnotateRequest,
    BindRequest,
    EvictRequest,
    PodGroupPhaseRequest,
    PodMarkRequest,
    Rejected,
    Reply,
    WatchMessage,
)
from events.normalize import JsonObject
from simulator.controllers import Controllers
from simulator.device_plugin import DevicePlugins
from simulator.disruption_budget import BLOCKED, SEVERAL_BUDGETS, eviction_refusal
from simulator.fault_steps import RaiseFault, RepairFault
from simulator.faults import Faults
from simulator.kubelet import POD, Kubelets
from simulator.manifest import AUTOSCALER, KINDS, Kind, Manifest
from simulator.manifest_fields import (
    Amounts,
    changed,
    is_terminating,
    list_at,
    merged,
    node_of,
    section,
)
from simulator.object_store import Key, Snapshot, Store, has_uid, key_of, resource_of
from simulator.pod_group_controller import PodGroupController
from simulator.pod_times import PodTimes
from simulator.recorded_children import RecordedChildren
from simulator.scenario import (
    Apply,
    Delete,
    DevicePluginStep,
    DeviceReportStep,
    Fail,
    Patch,
    Scenario,
    kind_named,
)
from simulator.timeline import ActionKind, ScheduledAction, Timeline
from simulator.trial_runs import TrialRuns
from simulator.volume_controller import VolumeController
from simulator.workload_validation import autoscaler_fault

REACTIONS_MAX: Final = 10_000
"""Rounds of controllers at one moment; more means that they create objects endlessly."""

_POD_GROUP: Final = kind_named("PodGroup")


class Call(Struct, frozen=True):
    """A call that reached the cluster, and its result."""

    at_ns: int
    verb: str
    """`annotate`, `bind`, `evict`, `delete`, `mark` or `phase`"""
    subject: str
    """`namespace/name`"""
    uid: str
    value: str
    """The node, the phase, or what is written."""
    decision: int
    result: str
    """`done`; `again` if it had been done before; else the code of the refusal."""


class TimedStep(Protocol):
    """A step, whatever it does."""

    @property
    def at_ns(self) -> int:
        """Its time."""


class SimulatedCluster:
    """A cluster that follows from its scenario and the calls made to it. Times are nanoseconds from its start."""

    def __init__(
        self,
        scenario: Scenario,
        origin_ns: int = 0,
        *,
        era_ns: int = 0,
        has_kubelets: bool = True,
        has_controllers: bool = True,
        times: PodTimes | None = None,
        recorded: RecordedChildren | None = None,
    ) -> None:
        self.has_kubelets = has_kubelets
        """If False, no kubelet runs: pods keep their status until a client changes it."""
        self.has_controllers = has_controllers
        """If False, workloads create no pods."""
        self._store = Store(origin_ns, era_ns)
        self._timeline = Timeline()
        self._device_plugins = DevicePlugins(self._store, self._timeline)
        trial_runs = TrialRuns(self._store)
        self._kubelets = Kubelets(
            self._store,
            self._timeline,
            times or PodTimes(scenario.start_delay_ns),
            trial_runs,
            self._rejection,
        )
        self._faults = Faults(self._store, self._timeline, self._kubelets, self._device_plugins)
        self._controllers = Controllers(
            self._store, self._kubelets.delete, self._requeue_at, trial_runs, recorded
        )
        self._pod_group_controller = (
            PodGroupController(self._store) if scenario.has_podgroup_controller else None
        )
        self._volume_controller = VolumeController(self._store)
        self._source = scenario.source
        self._steps: list[TimedStep] = list(scenario.steps)
        self._step = 0
        self.journal: list[Call] = []
        order = {kind: index for index, kind in enumerate(KINDS)}
        for placed in sorted(scenario.cluster, key=lambda placed: order[placed.kind]):
            self._store.put(placed.kind, placed.manifest)
        self._react(existed_before=True)

    @property
    def now_ns(self) -> int:
        """The current virtual time."""
        return self._store.now_ns

    @property
    def next_event_ns(self) -> int | None:
        """When the next event happens without a call; None if there is none."""
        times = [self._timeline.next_ns, self._next_step_ns]
        return min((at for at in times if at is not None), default=None)

    @property
    def settled(self) -> bool:
        """Return True if nothing more happens without a call."""
        return self.next_event_ns is None

    @property
    def experiments(self) -> JsonObject:
        """The work of the experiments until now, by `namespace/name`."""
        return self._controllers.experiments.document()

    def add_step(self, step: TimedStep) -> None:
        """Add a step that is not past, behind those of the same time."""
        assert step.at_ns >= self.now_ns, "a step in the past"
        insort(self._steps, step, lo=self._step, key=lambda one: one.at_ns)

    def advance(self, to_ns: int) -> None:
        """Let time pass up to that moment, with every event that is due, in order."""
        assert to_ns >= self.now_ns, "time does not run backwards"
        while (at := self.next_event_ns) is not None and at <= to_ns:
            self._store.now_ns = at
            if self._next_step_ns == at:
                self._step += 1
                self._run_step(self._steps[self._step - 1])
            else:
                self._run(self._timeline.pop())
            self._react()
        self._store.now_ns = to_ns

    def poll_watch(self) -> list[WatchMessage]:
        """Return the watch events since the last call; at first, all objects, kind by kind."""
        return self._store.poll_watch()

    def relist(self) -> None:
        """The next `poll_watch` returns all objects, as for a client that starts."""
        self._store.relist()

    def bind(self, request: BindRequest) -> Reply:
        """`POST pods/NAME/binding` (rule K8), and reading the pod again if it is refused."""
        key: Key = ("Pod", request.namespace, request.name)
        pod = self._store.find(key)
        reply, result = self._check_bind(pod, request)
        subject = f"{request.namespace}/{request.name}"
        self.journal.append(
            Call(self.now_ns, "bind", subject, request.uid, request.node, request.decision, result)
        )
        if result == "done" and pod is not None:
            self._store.put(POD, self._bound(pod, request))
            self._react()
            self.advance(self.now_ns)
        return reply

    def annotate(self, request: AnnotateRequest) -> Reply:
        """`PATCH pods/NAME` with annotations, if the pod has this UID and no node."""
        pod = self._store.find(("Pod", request.namespace, request.name))
        subject = f"{request.namespace}/{request.name}"
        reply: Reply = Accepted()
        result = "done"
        if pod is None:
            reply, result = Rejected("NotFound", f"pod {subject} does not exist"), "NotFound"
        elif not has_uid(pod, request.uid):
            text = f"the uid of pod {subject} is not {request.uid}"
            reply, result = Rejected("Conflict", text), "Conflict"
        elif node := node_of(pod):
            text = f"already assigned to node {node}"
            reply, result = Rejected("Conflict", text), "Conflict"
        elif _has_annotations(pod, request.annotations):
            result = "again"
        self.journal.append(
            Call(
                self.now_ns,
                "annotate",
                subject,
                request.uid,
                request.node,
                request.decision,
                result,
            )
        )
        if result == "done" and pod is not None:
            there = {**section(pod, "metadata", "annotations"), **request.annotations}
            self._store.put(POD, changed(pod, "metadata", annotations=there))
            self._react()
            self.advance(self.now_ns)
        return reply

    def mark_pod(self, request: PodMarkRequest) -> Reply:
        """`PATCH pods/NAME` with annotations and labels, if the pod has this UID."""
        pod = self._store.find(("Pod", request.namespace, request.name))
        subject = f"{request.namespace}/{request.name}"
        wanted = request.annotations
        reply: Reply = Accepted()
        result = "done"
        if pod is None or not has_uid(pod, request.uid):
            reply, result = Rejected("NotFound", f"pod {subject} does not exist"), "NotFound"
        elif _has_annotations(pod, wanted):
            result = "again"
        self.journal.append(
            Call(self.now_ns, "mark", subject, request.uid, request.what, request.decision, result)
        )
        if result == "done" and pod is not None:
            there = {**section(pod, "metadata", "annotations"), **wanted}
            labels = {**section(pod, "metadata", "labels"), **request.labels}
            self._store.put(POD, changed(pod, "metadata", annotations=there, labels=labels))
            self._react()
            self.advance(self.now_ns)
        return reply

    def set_phase(self, request: PodGroupPhaseRequest) -> Reply:
        """Set the phase of a PodGroup."""
        group = self._store.find(("PodGroup", request.namespace, request.name))
        reply, result = _check_phase(group, request)
        subject = f"{request.namespace}/{request.name}"
        self.journal.append(
            Call(
                self.now_ns, "phase", subject, request.uid, request.phase, request.decision, result
            )
        )
        if result == "done" and group is not None:
            self._store.put(_POD_GROUP, changed(group, "status", phase=request.phase))
            self._react()
            self.advance(self.now_ns)
        return reply

    @property
    def store(self) -> Store:
        """The objects of the API server."""
        return self._store

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Write an object, let kubelets and controllers react, and return it as it was written."""
        written = self._store.put(kind, manifest)
        self._react()
        self.advance(self.now_ns)
        return written

    def remove(self, key: Key) -> None:
        """Remove an object for good, and let kubelets and controllers react."""
        self._store.remove(key)
        self._react()
        self.advance(self.now_ns)

    def restore(self, kept: Snapshot, restored: Callable[[], None]) -> None:
        """Return to a snapshot, call `restored`, and let kubelets and controllers react."""
        self._store.restore(kept)
        restored()
        self._react()
        self.advance(self.now_ns)

    def release(self, uid: str) -> None:
        """Orphan the objects of a workload when it is deleted."""
        self._controllers.release(uid)

    def stop(self, key: Key, grace_ns: int) -> None:
        """Stop a pod that was marked for deletion: its kubelet takes its time, and then it is removed."""
        if self.has_kubelets:
            self._kubelets.stop(key, grace_ns)
            self._react()
            self.advance(self.now_ns)

    def evict(self, request: EvictRequest) -> Reply:
        """`POST pods/NAME/eviction` (rule K9), or `DELETE pods/NAME`, by force without a grace period."""
        key: Key = ("Pod", request.namespace, request.name)
        pod = self._store.find(key)
        result = "done"
        if request.is_forced:
            return self._delete_now(request, key, pod)
        if pod is None or not has_uid(pod, request.uid):
            result = "NotFound"
        elif is_terminating(pod):
            result = "again"
        elif not request.is_without_budgets and (held := eviction_refusal(self._store, pod)):
            result = held
        subject = f"{request.namespace}/{request.name}"
        self.journal.append(
            Call(self.now_ns, "evict", subject, request.uid, request.node, request.decision, result)
        )
        if result == "done":
            self._kubelets.delete(key)
            self._react()
            self.advance(self.now_ns)
        if result in (BLOCKED, SEVERAL_BUDGETS):
            return Rejected(result, "a disruption budget does not let it go")
        # A pod that is gone, or replaced by another, need not be evicted any more (K9.2).
        return Accepted()

    def _delete_now(self, request: EvictRequest, key: Key, pod: Manifest | None) -> Reply:
        is_there = pod is not None and has_uid(pod, request.uid)
        result = "done" if is_there else "NotFound"
        subject = f"{request.namespace}/{request.name}"
        self.journal.append(
            Call(
                self.now_ns, "delete", subject, request.uid, request.node, request.decision, result
            )
        )
        if is_there:
            self._store.remove(key)
            self._react()
            self.advance(self.now_ns)
        return Accepted()

    def find(self, resource: str, namespace: str, name: str) -> Manifest | None:
        """Return an object as it is now."""
        return self._store.find((resource, namespace, name))

    def used(self, node: str) -> Amounts:
        """The resources used by the pods on a node."""
        return self._kubelets.used(node)

    @property
    def _next_step_ns(self) -> int | None:
        return self._steps[self._step].at_ns if self._step < len(self._steps) else None

    def _run(self, due: ScheduledAction) -> None:
        if due.verb is ActionKind.RECONCILE:
            self._controllers.look(due.uid)
        elif due.verb is ActionKind.CONFIRM:
            self._device_plugins.confirm(due.key, due.uid)
        elif due.verb in (ActionKind.FAULT, ActionKind.EVICT):
            self._faults.run(due)
        else:
            self._kubelets.run(due)

    def _rejection(self, pod: Manifest, node: str) -> tuple[str, str] | None:
        """Return reason and message if the device plugin of a node rejects a pod."""
        return self._device_plugins.rejection(pod, node)

    def _requeue_at(self, uid: str, at_ns: int) -> None:
        self._timeline.push(at_ns, ScheduledAction(ActionKind.RECONCILE, ("", "", ""), uid))

    def _react(self, *, existed_before: bool = False) -> None:
        """Let kubelets and controllers react to changes until there are none."""
        for _ in range(REACTIONS_MAX):
            while changes := self._store.drain():
                for change in changes:
                    if self.has_kubelets:
                        self._kubelets.on_change(change, existed_before=existed_before)
                        self._device_plugins.on_change(change)
                        self._faults.on_change(change)
                    if self.has_controllers:
                        self._controllers.on_change(change)
                        self._volume_controller.on_change(change)
                        if self._pod_group_controller is not None:
                            self._pod_group_controller.on_change(change)
            if not self._controllers.reconcile():
                return
            existed_before = False
        raise DocumentError(
            f"{self._source}: at {self.now_ns / SECOND:g} s the controllers make pods without end"
        )

    def _run_step(self, step: TimedStep) -> None:
        """A step that names an object which does not exist (any more) does nothing: this is no error."""
        match step:
            case Apply():
                self._apply(step.kind, step.manifest)
            case Delete():
                key = (resource_of(step.kind), step.namespace, step.name)
                if step.kind == POD:
                    self._kubelets.delete(key)
                else:
                    self._store.remove(key)
            case Patch():
                key = (resource_of(step.kind), step.namespace, step.name)
                if (found := self._store.find(key)) is not None:
                    self._merge(step.kind, found, step.merge)
            case DevicePluginStep():
                self._device_plugins.configure(step)
            case DeviceReportStep():
                self._device_plugins.report(step)
            case Fail():
                self._kubelets.fail(("Pod", step.namespace, step.name), step.exit_code)
            case RaiseFault():
                self._faults.begin(step)
            case RepairFault():
                self._faults.repair(step)
            case _:
                raise AssertionError(f"{step} is a step of another cluster")

    def _apply(self, kind: Kind, manifest: Manifest) -> None:
        found = self._store.find(key_of(kind, manifest))
        if found is None:
            self._store.put(kind, manifest)
        else:
            self._merge(kind, found, manifest)

    def _merge(self, kind: Kind, found: Manifest, patch: JsonObject) -> None:
        """A patch cannot change an object's identity; an invalid result leaves it unchanged."""
        result = merged(found, patch)
        assert isinstance(result, dict)
        kept = {key: section(found, "metadata").get(key) for key in ("name", "namespace", "uid")}
        manifest: Manifest = {**result, "apiVersion": kind.api_version, "kind": kind.kind}
        identity = {key: value for key, value in kept.items() if value is not None}
        manifest = changed(manifest, "metadata", **identity)
        is_refused = kind == AUTOSCALER and autoscaler_fault(manifest) is not None
        if manifest != found and not is_refused:
            self._store.put(kind, manifest)

    def _check_bind(self, pod: Manifest | None, request: BindRequest) -> tuple[Reply, str]:
        name = f"{request.namespace}/{request.name}"
        if pod is None:
            return Rejected("NotFound", f"pod {name} does not exist"), "NotFound"
        reason = ""
        if not has_uid(pod, request.uid):
            reason = f"the uid of pod {name} is not {request.uid}"
        elif node_of(pod) == request.node and _has_annotations(pod, request.annotations):
            return Accepted(), "again"
        elif node := node_of(pod):
            reason = f"pod {name} is already assigned to node {node}"
        elif is_terminating(pod):
            reason = f"pod {name} is being deleted"
        elif list_at(section(pod, "spec"), "schedulingGates"):
            reason = f"pod {name} has scheduling gates"
        return (Rejected("Conflict", reason), "Conflict") if reason else (Accepted(), "done")

    def _bound(self, pod: Manifest, request: BindRequest) -> Manifest:
        annotations: JsonObject = {
            **section(pod, "metadata", "annotations"),
            **request.devices,
            **request.annotations,
        }
        at = self._store.timestamp()
        condition: JsonObject = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        others = [
            dict(one)
            for one in list_at(section(pod, "status"), "conditions")
            if one.get("type") != "PodScheduled"
        ]
        if annotations:
            pod = changed(pod, "metadata", annotations=annotations)
        pod = changed(pod, "spec", nodeName=request.node)
        status = {
            key: value
            for key, value in section(pod, "status").items()
            if key != "nominatedNodeName"
        }
        return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _check_phase(group: Manifest | None, request: PodGroupPhaseRequest) -> tuple[Reply, str]:
    name = f"{request.namespace}/{request.name}"
    if group is None:
        return Rejected("NotFound", f"pod group {name} does not exist"), "NotFound"
    if not has_uid(group, request.uid):
        return Rejected("Conflict", f"the uid of pod group {name} is not {request.uid}"), "Conflict"
    if section(group, "status").get("phase") == request.phase:
        return Accepted(), "again"
    return Accepted(), "done"


def _has_annotations(pod: Manifest, annotations: dict[str, str]) -> bool:
    there = section(pod, "metadata", "annotations")
    return all(there.get(key) == value for key, value in annotations.items())
