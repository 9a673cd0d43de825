"""How much work the trial pods of the simulated cluster have done, and how much of it a checkpoint keeps.

A pod with s slots does s slot-seconds of work in a second. It writes a checkpoint so often as its annotation says, which
takes no time, and one when it is asked to release its resources.
"""

from msgspec import Struct

from simulator.manifest import Manifest
from simulator.manifest_fields import (
    checkpoint_every_ns,
    checkpoint_ns,
    slots_of,
    uid_of,
    work_slot_ns,
)
from simulator.object_store import Store


class Work(Struct, frozen=True):
    """Work of one pod, in slot-nanoseconds."""

    done: int = 0
    kept: int = 0
    """The part of it that a later pod need not do again."""
    is_complete: bool = False


class _Run(Struct):
    """A trial pod whose containers run, or have run."""

    slots: int
    left: int | None
    """Slot-nanoseconds that were left when it started; None for work without end."""
    every_ns: int | None
    started_ns: int
    stopped_ns: int | None = None
    """When it stopped working."""
    unseen_ns: int | None = None
    """Since when its node does not report."""
    is_saved: bool = False
    """Whether it wrote a checkpoint after it had stopped working."""
    earlier: Work = Work()
    """What its containers did before they were restarted."""


class TrialRuns:
    """The work of all trial pods, by UID."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, _Run] = {}

    def begin(self, pod: Manifest) -> None:
        """A pod starts to run. One without work and without checkpoints is no trial."""
        left, every = work_slot_ns(pod), checkpoint_every_ns(pod)
        if not (left is None and every is None and checkpoint_ns(pod) is None):
            self._runs[uid_of(pod)] = _Run(slots_of(pod), left, every, self._store.now_ns)

    def stop(self, uid: str) -> None:
        """A pod stops working, if it has not yet; it had stopped when its node stopped reporting, as far as is known."""
        run = self._runs.get(uid)
        if run is not None and run.stopped_ns is None:
            now = self._store.now_ns
            run.stopped_ns = now if run.unseen_ns is None else run.unseen_ns

    def save(self, uid: str) -> None:
        """A pod that stopped working has written a checkpoint."""
        run = self._runs.get(uid)
        if run is not None:
            run.is_saved = True

    def restart(self, uid: str, run_ns: int | None) -> int | None:
        """The containers of a pod start again, a trial from its last checkpoint. Return how long they run: `run_ns`, if
        the pod states no work."""
        run = self._runs.get(uid)
        if run is None:
            return run_ns
        before, now = _work_of(run, self._store.now_ns), self._store.now_ns
        left = None if run.left is None else run.left - (before.kept - run.earlier.kept)
        self._runs[uid] = _Run(run.slots, left, run.every_ns, now, earlier=before)
        return run_ns if left is None else -(-left // run.slots)

    def is_not_seen(self, uid: str) -> None:
        """The node of a pod stops reporting: from now on its work does not count if it does not come back."""
        run = self._runs.get(uid)
        if run is not None and run.unseen_ns is None:
            run.unseen_ns = self._store.now_ns

    def is_seen_again(self, uid: str) -> None:
        """The node of a pod reports again, and its containers went on."""
        run = self._runs.get(uid)
        if run is not None:
            run.unseen_ns = None

    def has_stopped(self, uid: str) -> bool:
        """Whether it is a trial pod that does not work any more."""
        run = self._runs.get(uid)
        return run is not None and run.stopped_ns is not None

    def work(self, uid: str) -> Work:
        """Return the work of a pod until now; nothing if it is no trial pod, or never ran."""
        run = self._runs.get(uid)
        return Work() if run is None else _work_of(run, self._store.now_ns)

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""
        self._runs.pop(uid, None)


def _work_of(run: _Run, now_ns: int) -> Work:
    end = now_ns if run.stopped_ns is None else run.stopped_ns
    end = end if run.unseen_ns is None else min(end, run.unseen_ns)
    elapsed = max(0, end - run.started_ns)
    done = elapsed * run.slots
    is_complete = run.left is not None and done >= run.left
    if run.left is not None:
        done = min(done, run.left)
    kept = 0 if run.every_ns is None else elapsed // run.every_ns * run.every_ns * run.slots
    kept = done if run.is_saved or is_complete else min(done, kept)
    return Work(run.earlier.done + done, run.earlier.kept + kept, is_complete)
