"""The controllers of the simulated cluster: they create the pods of workloads and replace lost ones.

Simple and deterministic: everything due is done at the same moment, and pods are numbered from 0. A change
to an object or to an object that it owns enqueues the owner; each kind has one reconcile function.
"""

from collections.abc import Callable
from typing import Final

from simulator.autoscaler import reconcile_autoscaler, target_of
from simulator.batch_job import reconcile_job
from simulator.deployment import reconcile_deployment, reconcile_replica_set
from simulator.experiment import RESOURCE as EXPERIMENTS
from simulator.experiment import ExperimentController
from simulator.job_events import TASK_SPEC, JobEvent, job_event_of
from simulator.manifest import VOLCANO_JOB, Manifest
from simulator.manifest_fields import (
    controller_of,
    is_terminal,
    is_terminating,
    phase_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_factory import ObjectFactory
from simulator.object_store import Change, Key, Store, resource_of
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.queue_controller import QueueController
from simulator.recorded_children import RecordedChildren
from simulator.scenario import kind_named
from simulator.stateful_set import reconcile_stateful_set
from simulator.trial_runs import TrialRuns
from simulator.volcano_job import reconcile_volcano_job
from simulator.workload_validation import TARGETS

VOLCANO: Final = resource_of(VOLCANO_JOB)
AUTOSCALER: Final = resource_of(kind_named("HorizontalPodAutoscaler"))
COMMAND: Final = resource_of(kind_named("Command"))
_RECONCILERS: Final[dict[str, Callable[[ObjectFactory, Manifest, OwnedObjects], None]]] = {
    "Deployment": reconcile_deployment,
    "ReplicaSet": reconcile_replica_set,
    "StatefulSet": reconcile_stateful_set,
    "Job": reconcile_job,
    VOLCANO: reconcile_volcano_job,
    AUTOSCALER: reconcile_autoscaler,
}
_ANSWERING: Final = (VOLCANO, "Job")
"""Workloads with rules for events of their pods."""


class Controllers:
    """All controllers of the cluster."""

    def __init__(
        self,
        store: Store,
        delete_pod: Callable[[Key], None],
        wake: Callable[[str, int], None],
        trial_runs: TrialRuns,
        recorded: RecordedChildren | None = None,
    ) -> None:
        self._store = store
        self.experiments = ExperimentController(store, trial_runs)
        self._reconcilers = {**_RECONCILERS, EXPERIMENTS: self.experiments.reconcile}
        self._factory = ObjectFactory(store, delete_pod, wake, recorded)
        self._queues = QueueController(store)
        self._owners: dict[str, Key] = {}
        self._children: dict[str, OwnedObjects] = {}
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        """Enqueue a changed object, or its owner."""
        manifest = change.after or change.before
        assert manifest is not None
        self._queues.on_change(change)
        if change.key[0] == COMMAND:
            self._command(change)
        elif change.key[0] in TARGETS:
            self._note_target(change.key)
        if owner := controller_of(manifest):
            self._note_owned(owner, change)
        if change.key[0] in self._reconcilers:
            uid = uid_of(manifest)
            if change.after is None:
                self._owners.pop(uid, None)
                self._due.pop(uid, None)
                for key in list(self._children.pop(uid, OwnedObjects()).all):
                    self._factory.delete(key)
            else:
                self._owners[uid] = change.key
                self._due[uid] = None

    def restore_counts(
        self, uid: str, *, started_ns: int | None, made: int, succeeded: int, failed: int
    ) -> None:
        """Set when a workload started, how many pods it created, and how many succeeded or failed of which nothing is
        left."""
        children = self._children.setdefault(uid, OwnedObjects())
        children.started_ns = started_ns
        children.made, children.succeeded, children.failed = made, succeeded, failed

    def look(self, uid: str) -> None:
        """Enqueue a workload at its requested time."""
        if uid in self._owners:
            self._due[uid] = None

    def release(self, uid: str) -> None:
        """Orphan the objects of a workload that is about to be deleted."""
        self._owners.pop(uid, None)
        self._children.pop(uid, None)
        self._due.pop(uid, None)

    def _note_owned(self, owner: str, change: Change) -> None:
        children = self._children.setdefault(owner, OwnedObjects())
        self._due[owner] = None
        if self._owners.get(owner, ("",))[0] in _ANSWERING and not children.is_deletion_expected(
            change.key
        ):
            job_event = job_event_of(change)
            if job_event is not None:
                children.job_events.append(job_event)
        children.update(change.key, _child(change), _role(change))
        if not children.all and owner not in self._owners:
            del self._children[owner]

    def _note_target(self, key: Key) -> None:
        """Enqueue the autoscalers of a changed workload."""
        for autoscaler in self._store.objects().get(AUTOSCALER, {}).values():
            if target_of(autoscaler) == key:
                self._due[uid_of(autoscaler)] = None

    def _command(self, change: Change) -> None:
        """Execute a Command once: delete it, and pass its action to its target."""
        command = change.after
        target = section(command or {}, "target")
        kind, name = text_at(target, "kind"), text_at(target, "name")
        if command is None or kind not in ("Job", "Queue"):
            return
        self._store.remove(change.key)
        action = text_at(command, "action")
        if kind == "Queue":
            self._queues.command(name, action)
            return
        job = self._store.find((VOLCANO, change.key[1], name))
        if job is not None:
            children = self._children.setdefault(uid_of(job), OwnedObjects())
            children.job_events.append(JobEvent("CommandIssued", action=action))
            self._due[uid_of(job)] = None

    def reconcile(self) -> bool:
        """Reconcile every enqueued owner; return False if there was none."""
        due, self._due = self._due, {}
        for uid in due:
            key = self._owners.get(uid)
            owner = self._store.find(key) if key is not None else None
            if key is not None and owner is not None:
                children = self._children.setdefault(uid, OwnedObjects())
                self._reconcilers[key[0]](self._factory, owner, children)
        return bool(due)


def _role(change: Change) -> str:
    annotations = section(change.after or {}, "metadata", "annotations")
    return text_at(annotations, TASK_SPEC)


def _child(change: Change) -> ChildState | None:
    manifest = change.after
    if manifest is None:
        return None
    if change.key[0] == "Pod" and is_terminal(manifest):
        return ChildState.SUCCEEDED if phase_of(manifest) == "Succeeded" else ChildState.FAILED
    if is_terminating(manifest):
        return ChildState.STOPPING
    return ChildState.RUNNING if phase_of(manifest) == "Running" else ChildState.ACTIVE
