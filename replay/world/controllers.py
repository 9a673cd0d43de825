"""The controllers of the simulated cluster: they make pods out of workloads and replace lost ones.

Simple and deterministic: whatever is due is done at the same instant, pods are numbered from 0, and a
changed template of a Deployment replaces all its pods at once. A change to an object or to one of its
own objects makes the owner due; each kind has one function that brings it where it should be.
"""

from collections.abc import Callable
from typing import Final

from replay.world.children import Child, Children
from replay.world.content import controller_of, is_terminal, is_terminating, phase_of, uid_of
from replay.world.manifest import Manifest
from replay.world.shop import Shop
from replay.world.store import Change, Key, Store
from replay.world.volcano_job import reconcile_volcano_job
from replay.world.workloads import (
    reconcile_deployment,
    reconcile_job,
    reconcile_replica_set,
    reconcile_stateful_set,
)

_RECONCILERS: Final[dict[str, Callable[[Shop, Manifest, Children], None]]] = {
    "Deployment": reconcile_deployment,
    "ReplicaSet": reconcile_replica_set,
    "StatefulSet": reconcile_stateful_set,
    "Job": reconcile_job,
    "Job.batch.volcano.sh": reconcile_volcano_job,
}


class Controllers:
    """All controllers of the cluster."""

    def __init__(self, store: Store, delete_pod: Callable[[Key], None]) -> None:
        self._store = store
        self._shop = Shop(store, delete_pod)
        self._owners: dict[str, Key] = {}
        self._children: dict[str, Children] = {}
        self._due: dict[str, None] = {}

    def note(self, change: Change) -> None:
        """An object changed: its owner, or itself, has to be looked at."""
        manifest = change.after or change.before
        assert manifest is not None
        if owner := controller_of(manifest):
            children = self._children.setdefault(owner, Children())
            children.note(change.key, _child(change))
            self._due[owner] = None
        if change.key[0] in _RECONCILERS:
            uid = uid_of(manifest)
            if change.after is None:
                self._owners.pop(uid, None)
                self._due.pop(uid, None)
                for key in list(self._children.pop(uid, Children()).all):
                    self._shop.delete(key)
            else:
                self._owners[uid] = change.key
                self._due[uid] = None

    def release(self, uid: str) -> None:
        """A workload is about to go, and what it owns is to stay."""
        self._owners.pop(uid, None)
        self._children.pop(uid, None)
        self._due.pop(uid, None)

    def reconcile(self) -> bool:
        """Bring every due owner where it should be; False if none was due."""
        due, self._due = self._due, {}
        for uid in due:
            key = self._owners.get(uid)
            owner = self._store.find(key) if key is not None else None
            if key is not None and owner is not None:
                children = self._children.setdefault(uid, Children())
                _RECONCILERS[key[0]](self._shop, owner, children)
        return bool(due)


def _child(change: Change) -> Child | None:
    manifest = change.after
    if manifest is None:
        return None
    if change.key[0] == "Pod" and is_terminal(manifest):
        return Child.SUCCEEDED if phase_of(manifest) == "Succeeded" else Child.FAILED
    if is_terminating(manifest):
        return Child.STOPPING
    return Child.RUNNING if phase_of(manifest) == "Running" else Child.ACTIVE
