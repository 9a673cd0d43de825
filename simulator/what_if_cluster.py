"""A simulated cluster that begins as a recorded one at a position of its log, and goes on from there."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from events.daemon import PolicyChanged
from events.duration import SECOND
from projections.kinds.workload import REPLACING
from simulator.cluster import SimulatedCluster, TimedStep
from simulator.kubelet import POD
from simulator.manifest import Kind, Manifest, kind_of
from simulator.manifest_fields import (
    changed,
    controller_of,
    is_terminal,
    is_terminating,
    merged,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    section,
    uid_of,
    whole_at,
)
from simulator.object_store import Key, resource_of
from simulator.scenario import Scenario
from simulator.what_if_history import RecordedHistory, is_workload_finished
from simulator.what_if_steps import PolicyStep, RecordedStep, Verb
from simulator.what_if_times import RecordedTimes

UID_PREFIX: Final = "what-if-"
"""Beginning of the UIDs of objects that exist in no record."""


class WhatIfCluster(SimulatedCluster):
    """A cluster with the objects of a recorded one, once `load` was called.

    `steps` are those of the record and of a change; those of one time happen in this order. `on_policy` is called
    when a policy of the record comes into force.
    """

    def __init__(
        self,
        history: RecordedHistory,
        steps: Iterable[TimedStep],
        on_policy: Callable[[PolicyChanged], None],
    ) -> None:
        self._history = history
        self._recorded = history.children.copy()
        self._on_policy = on_policy
        super().__init__(
            Scenario(
                name="what-if",
                source="what-if",
                has_podgroup_controller=history.has_podgroup_controller,
            ),
            times=RecordedTimes(history.pods),
            recorded=self._recorded,
        )
        self._steps = sorted(steps, key=lambda step: step.at_ns)

    def load(self, now_ns: int) -> None:
        """Begin with the objects of the record, at a time."""
        history, store = self._history, self._store
        store.begin_at(now_ns, history.revision, UID_PREFIX)
        ended = Counter(
            (controller_of(manifest), phase_of(manifest))
            for kind, manifest in history.objects
            if kind == POD
        )
        for kind, manifest in history.objects:
            store.load(kind, manifest)
            if resource_of(kind) in REPLACING:
                uid, status = uid_of(manifest), section(manifest, "status")
                is_suspended = section(manifest, "spec").get("suspend") is True
                started_ns = None if is_suspended else history.made_ns[uid]
                self._controllers.restore_counts(
                    uid,
                    started_ns=started_ns,
                    made=history.made[uid],
                    succeeded=max(0, whole_at(status, "succeeded", 0) - ended[uid, "Succeeded"]),
                    failed=max(0, whole_at(status, "failed", 0) - ended[uid, "Failed"]),
                )
                limit = whole_at(section(manifest, "spec"), "activeDeadlineSeconds", 0) * SECOND
                if limit and started_ns is not None:
                    self._requeue_at(uid, max(now_ns, started_ns + limit))
        self._react(existed_before=True)
        stopping = [
            RecordedStep(
                now_ns,
                Verb.REMOVE if history.pods[uid_of(pod)].is_forced else Verb.DELETE_POD,
                POD,
                *key[1:],
                uid_of(pod),
            )
            for key, pod in store.objects().get("Pod", {}).items()
            if uid_of(pod) in history.stopping
        ]
        self._steps[:0] = stopping

    def _react(self, *, existed_before: bool = False) -> None:
        """React, and schedule how other clients changed what controllers have created."""
        super()._react(existed_before=existed_before)
        for child in self._recorded.pop_created():
            kind = kind_of(child.manifest)
            for later_ns, patch in child.changes:
                self.add_step(
                    RecordedStep(
                        self.now_ns + later_ns,
                        Verb.PATCH,
                        kind,
                        namespace_of(child.manifest),
                        name_of(child.manifest),
                        uid_of(child.manifest),
                        patch,
                    )
                )

    def _rejection(self, pod: Manifest, node: str) -> tuple[str, str] | None:
        """Return reason and message if a node rejects a pod: as simulated, or because it did so in the record."""
        recorded = self._history.pods.get(uid_of(pod))
        if (
            recorded is not None
            and recorded.rejection is not None
            and recorded.rejection[0] == node
        ):
            return recorded.rejection[1:]
        return super()._rejection(pod, node)

    def _run_step(self, step: TimedStep) -> None:
        match step:
            case PolicyStep():
                self._on_policy(step.policy)
            case RecordedStep():
                self._apply_recorded(step)
                # Changes that were recorded at one time had all happened when controllers reacted.
                while (
                    isinstance(more := self._next_step, RecordedStep) and more.at_ns == step.at_ns
                ):
                    self._step += 1
                    self._apply_recorded(more)
            case _:
                super()._run_step(step)

    @property
    def _next_step(self) -> TimedStep | None:
        return self._steps[self._step] if self._step < len(self._steps) else None

    def _apply_recorded(self, step: RecordedStep) -> None:
        """Repeat what another client did. If the object is not there, or is another one, nothing happens."""
        key: Key = (resource_of(step.kind), step.namespace, step.name)
        found = self._store.find(key)
        if found is None:
            if step.verb in (Verb.CREATE, Verb.REPLACE):
                self._store.load(step.kind, step.content)
            return
        if uid_of(found) != step.uid:
            return
        match step.verb:
            case Verb.REPLACE:
                self._change(step.kind, found, step.content)
            case Verb.PATCH:
                patched = merged(found, step.content)
                assert isinstance(patched, dict)
                self._change(step.kind, found, patched)
            case Verb.DELETE_POD:
                if not is_terminating(found) and step.node in ("", node_of(found)):
                    self._kubelets.delete(key)
            case Verb.END_POD:
                if not is_terminal(found) and step.node == node_of(found):
                    self._store.load(step.kind, {**found, **step.content})
            case Verb.REMOVE:
                if not step.is_finished or is_workload_finished(found):
                    self._store.remove(key)
            case Verb.CREATE:
                pass

    def _change(self, kind: Kind, found: Manifest, content: Manifest) -> None:
        revision = section(found, "metadata").get("resourceVersion")
        content = changed(content, "metadata", resourceVersion=revision)
        if content != found:
            self._store.load(kind, content)
