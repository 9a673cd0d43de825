"""The kubelets of the simulated cluster: they admit, start, finish, fail and stop the pods of their nodes.

They count a node's used resources from the pods that are on it, independent of the scheduler: a pod that
does not fit is rejected and fails.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from events.normalize import Json
from simulator.manifest import Kind, Manifest
from simulator.manifest_fields import (
    Amounts,
    add,
    allocated_of,
    amounts,
    changed,
    checkpoint_ns,
    is_release_requested,
    is_terminal,
    is_terminating,
    list_at,
    node_of,
    phase_of,
    reports_resources,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.object_store import Change, Key, Store
from simulator.pod_times import PodTimes
from simulator.scenario import kind_named
from simulator.timeline import ActionKind, ScheduledAction, Timeline
from simulator.trial_runs import TrialRuns

POD: Final[Kind] = kind_named("Pod")
CRASHED: Final = 255
"""Exit code of a container of which the runtime knows nothing after a crash of its node."""
_REASONS: Final = {"cpu": "OutOfcpu", "memory": "OutOfmemory", "pods": "OutOfpods"}


class _Node(Struct):
    """A node as its kubelet knows it; it may have pods before it has an object."""

    manifest: Manifest | None = None
    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    pods: dict[Key, str] = field(default_factory=dict)
    """The pods with this node's name, to their uids."""
    waiting: list[ScheduledAction] = field(default_factory=list)
    """Actions that the kubelet cannot do or report while the node is stopped or not ready."""
    is_stopped: bool = False

    @property
    def acts(self) -> bool:
        """Whether its kubelet does anything that can be seen."""
        return self.manifest is not None and not self.is_stopped and is_ready(self.manifest)


class Kubelets:
    """All kubelets of the cluster."""

    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        times: PodTimes,
        trial_runs: TrialRuns,
        rejected_by_plugin: Callable[[Manifest, str], tuple[str, str] | None],
    ) -> None:
        self._store = store
        self._rejected_by_plugin = rejected_by_plugin
        """Returns reason and message if the device plugin of a node rejects a pod."""
        self._timeline = timeline
        self._times = times
        self._trial_runs = trial_runs
        self._nodes: dict[str, _Node] = {}
        self._taken: dict[str, tuple[str, Amounts]] = {}
        self._finish_ns: dict[str, int] = {}
        """When pods end whose containers were restarted or that write a checkpoint, by UID."""
        self._releasing: dict[str, None] = {}
        """UIDs of pods that write a checkpoint and then exit."""

    def on_change(self, change: Change, *, existed_before: bool = False) -> None:
        """React to a changed object. `existed_before`: it is part of the initial cluster, so its pods are not
        checked."""
        if change.key[0] == "Node":
            self._on_node_change(change)
        elif change.key[0] == "Pod":
            self._on_pod_change(change, existed_before=existed_before)

    def run(self, due: ScheduledAction) -> None:
        """Run a due action on a pod, if that pod still exists."""
        pod = self._store.find(due.key)
        if pod is None or uid_of(pod) != due.uid:
            return
        node = self._nodes.get(node_of(pod))
        if node is None or node.manifest is None:
            return
        if not node.acts:
            node.waiting.append(due)
        elif due.verb is ActionKind.REMOVE:
            self._remove_stopped(pod, due.key)
        elif due.verb is ActionKind.FINISH:
            if phase_of(pod) == "Running" and self._store.now_ns >= self._finish_ns.get(due.uid, 0):
                self._finish(pod)
        elif due.verb is ActionKind.CHECKPOINT:
            self._write_checkpoint(pod, due.key)
        elif phase_of(pod) == "Pending" and not is_terminating(pod):
            self._start(pod, due.key)

    def _finish(self, pod: Manifest) -> None:
        """End a pod by itself, unless it is a trial that does not work any more: it waits until it is removed."""
        uid = uid_of(pod)
        if uid in self._releasing:
            self._trial_runs.save(uid)
        elif self._trial_runs.has_stopped(uid):
            return
        exit_code = self._times.exit_code(pod)
        phase, reason = ("Failed", "Error") if exit_code else ("Succeeded", "Completed")
        self._store.put(POD, _over(pod, phase, exit_code, reason))

    def fail(self, key: Key, exit_code: int) -> None:
        """End the pod with an exit code, if it has a node and has not ended."""
        pod = self._store.find(key)
        if pod is not None and node_of(pod) and not is_terminal(pod):
            self._store.put(POD, _over(pod, "Failed", exit_code, "Error"))

    def delete(self, key: Key) -> None:
        """Delete the pod: at once, or after the time that it takes to stop.

        The kubelet of a node that is not ready cannot stop anything: its pods stay terminating until it is ready or
        its node is deleted. A second deletion of such a pod counts as a forced one.
        """
        pod = self._store.find(key)
        if pod is None:
            return
        stop = self._times.stop_ns(pod) or 0
        node = self._nodes.get(node_of(pod))
        is_gone = is_terminal(pod) or is_terminating(pod)
        if is_gone or node is None or node.manifest is None or (stop == 0 and node.acts):
            self._store.remove(key)
            return
        at = self._store.timestamp(stop)
        self._store.put(POD, changed(pod, "metadata", deletionTimestamp=at))
        self._timeline.push(
            self._store.now_ns + stop, ScheduledAction(ActionKind.REMOVE, key, uid_of(pod))
        )

    def stop(self, key: Key, grace_ns: int) -> None:
        """Stop a pod that the API server marked: it is removed when it has stopped, or its grace period is over.

        A pod whose node is gone is removed at once.
        """
        pod = self._store.find(key)
        if pod is None:
            return
        node = self._nodes.get(node_of(pod))
        if node is None or node.manifest is None:
            self._remove_stopped(pod, key)
            return
        stop = min(self._times.stop_ns(pod) or 0, grace_ns)
        self._timeline.push(
            self._store.now_ns + stop, ScheduledAction(ActionKind.REMOVE, key, uid_of(pod))
        )

    def pods_on(self, node: str) -> list[Key]:
        """Return the pods of a node, in the order in which they came to it."""
        return list(self._nodes[node].pods) if node in self._nodes else []

    def stop_node(self, name: str) -> None:
        """A node stops, or cannot report: what its kubelet does is not seen until `start_node`."""
        if name in self._nodes:
            self._nodes[name].is_stopped = True
            for uid in self._nodes[name].pods.values():
                self._trial_runs.is_not_seen(uid)

    def start_node(self, name: str, *, has_crashed: bool) -> None:
        """A node reports again. After a crash its pods fail, or their containers are started again."""
        node = self._nodes.get(name)
        if node is None:
            return
        node.is_stopped = False
        if has_crashed:
            ends = (ActionKind.FINISH, ActionKind.CHECKPOINT)
            node.waiting = [due for due in node.waiting if due.verb not in ends]
            for key in list(node.pods):
                self.crash(key, CRASHED, "Unknown")
        for uid in node.pods.values():
            self._trial_runs.is_seen_again(uid)
        self._resume(node)

    def crash(self, key: Key, exit_code: int, reason: str = "Error") -> None:
        """End the containers of a running pod: it fails, or (by its restart policy) they are started again."""
        pod = self._store.find(key)
        if pod is None or phase_of(pod) != "Running" or is_terminating(pod):
            return
        self._trial_runs.stop(uid_of(pod))
        if text_at(section(pod, "spec"), "restartPolicy") == "Never":
            self._store.put(POD, _over(pod, "Failed", exit_code, reason))
            return
        statuses = {
            text_at(one, "name"): one
            for one in list_at(section(pod, "status"), "containerStatuses")
        }
        restarted: list[Json] = []
        for container in list_at(section(pod, "spec"), "containers"):
            name = text_at(container, "name")
            status = statuses.get(name, {})
            last: Json = {"terminated": {"exitCode": exit_code, "reason": reason}}
            count = whole_at(status, "restartCount", 0) + 1
            restarted.append({**status, "name": name, "restartCount": count, "lastState": last})
        self._store.put(POD, changed(pod, "status", containerStatuses=restarted))
        run = self._times.run_ns(pod)
        uid = uid_of(pod)
        self._releasing.pop(uid, None)
        run = self._trial_runs.restart(uid, run)
        if run is not None:
            self._finish_ns[uid] = self._store.now_ns + run
            self._schedule(run, ActionKind.FINISH, key, uid)
        if is_release_requested(pod):
            self._schedule(0, ActionKind.CHECKPOINT, key, uid)

    def _resume(self, node: _Node) -> None:
        """Do what had to wait."""
        if node.waiting and node.acts:
            for due in node.waiting:
                self._timeline.push(self._store.now_ns, due)
            node.waiting.clear()

    def used(self, node: str) -> Amounts:
        """The resources used by the pods of a node."""
        return dict(self._nodes[node].used) if node in self._nodes else {}

    def allocatable(self, node: str) -> Amounts:
        """The allocatable resources of a node."""
        return dict(self._nodes[node].allocatable) if node in self._nodes else {}

    def _on_node_change(self, change: Change) -> None:
        node = self._nodes.setdefault(change.key[2], _Node())
        node.manifest = change.after
        if change.after is None:
            node.allocatable = {}
            node.is_stopped = False
            node.waiting.clear()
            for key in list(node.pods):
                # As the pod garbage collector does with the pods of a deleted node.
                self._store.remove(key)
            return
        status = section(change.after, "status")
        node.allocatable = amounts(section(status, "allocatable") or section(status, "capacity"))
        if change.before is None:
            for key, uid in node.pods.items():
                self._timeline.push(self._store.now_ns, ScheduledAction(ActionKind.START, key, uid))
        self._resume(node)

    def _on_pod_change(self, change: Change, *, existed_before: bool) -> None:
        before = node_of(change.before) if change.before is not None else ""
        after = node_of(change.after) if change.after is not None else ""
        if before and before != after:
            self._nodes[before].pods.pop(change.key, None)
        pod = change.after
        if pod is None or not after or is_terminal(pod):
            last = pod or change.before
            assert last is not None
            self._release(uid_of(last))
        if pod is None or not after:
            return
        node = self._nodes.setdefault(after, _Node())
        uid = uid_of(pod)
        node.pods[change.key] = uid
        if not is_terminal(pod) and uid not in self._taken:
            self._admit_pod(pod, change.key, node, existed_before=existed_before)
        elif uid in self._taken and _may_be_resized(change):
            self._resize(pod, node)
        if phase_of(pod) == "Running" and is_terminating(pod) and uid not in self._releasing:
            self._trial_runs.stop(uid)
        elif _begins_release(change):
            self._schedule(0, ActionKind.CHECKPOINT, change.key, uid)

    def _admit_pod(self, pod: Manifest, key: Key, node: _Node, *, existed_before: bool) -> None:
        """Admit a pod: newly bound, created with `nodeName`, or part of the initial cluster."""
        asked = allocated_of(pod)
        is_new = phase_of(pod) == "Pending" and not existed_before and node.manifest is not None
        reason = _rejection(pod, asked, node) if is_new else None
        reason = reason or (self._rejected_by_plugin(pod, node_of(pod)) if is_new else None)
        if reason is not None:
            code, message = reason
            status: dict[str, Json] = {"phase": "Failed", "reason": code, "message": message}
            self._store.put(POD, changed(pod, "status", **status))
            return
        uid = uid_of(pod)
        self._taken[uid] = (node_of(pod), asked)
        add(node.used, asked)
        now, times = self._store.now_ns, self._times
        if is_terminating(pod):
            stop = times.remaining_stop_ns(pod, now) if existed_before else times.stop_ns(pod)
            self._schedule(stop, ActionKind.REMOVE, key, uid)
        elif phase_of(pod) == "Pending":
            start = times.remaining_start_ns(pod, now) if existed_before else times.start_ns(pod)
            self._schedule(start, ActionKind.START, key, uid)
        elif phase_of(pod) == "Running":
            run = times.remaining_run_ns(pod, now) if existed_before else times.run_ns(pod)
            self._trial_runs.begin(pod)
            self._schedule(run, ActionKind.FINISH, key, uid)

    def _resize(self, pod: Manifest, node: _Node) -> None:
        """Count a pod that is resized in place as what it has now: without a status that says otherwise a resize of the spec
        is done at once."""
        asked, (name, before) = allocated_of(pod), self._taken[uid_of(pod)]
        if asked != before:
            add(node.used, before, -1)
            add(node.used, asked)
            self._taken[uid_of(pod)] = (name, asked)

    def _schedule(self, later_ns: int | None, verb: ActionKind, key: Key, uid: str) -> None:
        """Schedule an action on a pod; None for never."""
        if later_ns is not None:
            self._timeline.push(self._store.now_ns + later_ns, ScheduledAction(verb, key, uid))

    def _remove_stopped(self, pod: Manifest, key: Key) -> None:
        """The pod has stopped: remove it, unless it has finalizers."""
        if not section(pod, "metadata").get("finalizers"):
            self._store.remove(key)
        elif section(pod, "metadata").get("deletionGracePeriodSeconds") != 0:
            self._store.put(POD, changed(pod, "metadata", deletionGracePeriodSeconds=0))

    def _release(self, uid: str) -> None:
        self._finish_ns.pop(uid, None)
        self._releasing.pop(uid, None)
        self._trial_runs.stop(uid)
        taken = self._taken.pop(uid, None)
        if taken is not None:
            add(self._nodes[taken[0]].used, taken[1], -1)

    def _write_checkpoint(self, pod: Manifest, key: Key) -> None:
        """A pod that is asked to release its resources stops working, writes a checkpoint, and exits."""
        uid, writing = uid_of(pod), checkpoint_ns(pod)
        is_free = phase_of(pod) == "Running" and not is_terminating(pod)
        if writing is None or not is_free or uid in self._releasing:
            return
        self._releasing[uid] = None
        self._trial_runs.stop(uid)
        self._finish_ns[uid] = self._store.now_ns + writing
        self._schedule(writing, ActionKind.FINISH, key, uid)

    def _start(self, pod: Manifest, key: Key) -> None:
        at = self._store.timestamp()
        conditions: list[Json] = [
            *(dict(one) for one in list_at(section(pod, "status"), "conditions")),
            {"type": "Ready", "status": "True", "lastTransitionTime": at},
        ]
        self._store.put(
            POD, changed(pod, "status", phase="Running", startTime=at, conditions=conditions)
        )
        self._trial_runs.begin(pod)
        self._schedule(self._times.run_ns(pod), ActionKind.FINISH, key, uid_of(pod))


def _may_be_resized(change: Change) -> bool:
    """Return whether a change of a pod may concern its resources: of its spec, or of the status that reports them."""
    before, after = change.before, change.after
    if before is None or after is None or before.get("spec") is not after.get("spec"):
        return True
    return before.get("status") is not after.get("status") and reports_resources(after)


def _begins_release(change: Change) -> bool:
    """Return whether a running pod has just been asked to release its resources, or was before it ran."""
    before, after = change.before, change.after
    if after is None or phase_of(after) != "Running" or not is_release_requested(after):
        return False
    return before is None or phase_of(before) != "Running" or not is_release_requested(before)


def _over(pod: Manifest, phase: str, exit_code: int, reason: str) -> Manifest:
    containers = list_at(section(pod, "spec"), "containers")
    statuses: list[Json] = [
        {
            "name": text_at(container, "name"),
            "state": {"terminated": {"exitCode": exit_code, "reason": reason}},
        }
        for container in containers
    ]
    conditions: list[Json] = [
        dict(one)
        for one in list_at(section(pod, "status"), "conditions")
        if one.get("type") != "Ready"
    ]
    return changed(pod, "status", phase=phase, containerStatuses=statuses, conditions=conditions)


def _rejection(pod: Manifest, asked: Amounts, node: _Node) -> tuple[str, str] | None:
    """Why the kubelet rejects a pod (K5.12): reason and message; None if it does not."""
    labels = section(node.manifest or {}, "metadata", "labels")
    for label, value in section(pod, "spec", "nodeSelector").items():
        if labels.get(label) != value:
            return "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"
    for name, amount in asked.items():
        # An extended resource that the node does not state is not compared: a scheduler extender counts it.
        is_stated = name in node.allocatable or not (name == "pods" or "/" in name)
        has, used = node.allocatable.get(name, 0), node.used.get(name, 0)
        if not is_stated or amount == 0 or used + amount <= has:
            continue
        if "/" not in name:
            reason = _REASONS.get(name, f"OutOf{name}")
            return reason, (
                f"Pod was rejected: Node didn't have enough resource: {name}, "
                f"requested: {amount}, used: {used}, capacity: {has}"
            )
        return "UnexpectedAdmissionError", (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            f"{name}. Requested: {amount}, Available: {max(0, has - used)}, which is unexpected"
        )
    return None


def is_ready(node: Manifest) -> bool:
    """Return whether a node is ready. Without a condition `Ready` it is: scenarios need not state it."""
    for condition in list_at(section(node, "status"), "conditions"):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return True
