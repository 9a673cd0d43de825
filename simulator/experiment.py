"""Experiments like those of Determined: many trials, of which so many run at a time, each with an amount of work.

`Experiment` is a kind of the simulator. Its controller creates the pods of a trial, and creates them again when they
have exited on request, were evicted or have failed: with the work that no checkpoint keeps. The pods of a trial with
several are a gang, which is restarted as a whole.
"""

from typing import Final

from msgspec import Struct, field

from events.duration import SECOND, nanoseconds
from events.normalize import Json, JsonObject
from features.pools.job_options import TRIAL
from projections.job_option_keys import (
    DETERMINED_TYPE,
    JOB,
    MAX_SLOTS,
    POOL,
    PRIORITY,
    SUBMITTED,
    TASK,
    WEIGHT,
)
from projections.pod_annotations import COSCHEDULING_GROUP, COSCHEDULING_MIN
from projections.pods import TASK_INDEX
from projections.policy.pools import CPU
from simulator.manifest import (
    CHECKPOINT_EVERY_SECONDS,
    CHECKPOINT_SECONDS,
    EXPERIMENT,
    WORK_SLOT_SECONDS,
    WORK_SLOTS,
    Manifest,
)
from simulator.manifest_fields import (
    changed,
    is_release_requested,
    name_of,
    namespace_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.object_factory import ObjectFactory, PodOverrides
from simulator.object_store import Key, Store, resource_of
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import kind_named
from simulator.trial_runs import TrialRuns, Work

RESOURCE: Final = resource_of(EXPERIMENT)
CONCURRENT_TRIALS: Final = 16
"""Default of `maxConcurrentTrials`."""
RESTARTS_MAX: Final = 5
"""Default of `maxRestarts`."""
_POD: Final = kind_named("Pod")
_OPTIONS: Final = {
    "priority": PRIORITY,
    "weight": WEIGHT,
    "maxSlots": MAX_SLOTS,
    "pool": POOL,
}
"""Keys of the spec that are annotations of the pods, also of those that exist when they are changed."""


class _Trial(Struct):
    """A trial that has begun and has not ended."""

    number: int
    run: int = 0
    """The number of its latest run."""
    pods: dict[Key, str] = field(default_factory=dict)
    """The pods of that run, to their UIDs."""
    ended: dict[Key, Work] = field(default_factory=dict)
    """Those of them that have ended."""
    kept: int = 0
    """Slot-nanoseconds of each pod that earlier runs did and checkpoints keep."""
    failures: int = 0


class _Account(Struct):
    """What the controller remembers of an experiment. Work is in slot-nanoseconds."""

    name: str
    """`namespace/name`"""
    trials: dict[int, _Trial] = field(default_factory=dict)
    begun: int = 0
    completed: int = 0
    failed: int = 0
    restarts: int = 0
    done: int = 0
    lost: int = 0
    options: dict[str, str] = field(default_factory=dict)


class ExperimentController:
    """Creates the pods of trials, and counts their work."""

    def __init__(self, store: Store, trial_runs: TrialRuns) -> None:
        self._store = store
        self._trial_runs = trial_runs
        self._accounts: dict[str, _Account] = {}

    def document(self) -> JsonObject:
        """Return the work of every experiment until now, by `namespace/name`, in slot-seconds."""
        found: JsonObject = {}
        for uid, account in self._accounts.items():
            namespace, _, name = account.name.partition("/")
            owner = self._store.find((RESOURCE, namespace, name))
            wanted = 0
            if owner is not None and uid_of(owner) == uid:
                wanted = whole_at(section(owner, "spec"), "trials", 1)
            running = [
                self._trial_runs.work(pod).done
                for trial in account.trials.values()
                for key, pod in trial.pods.items()
                if key not in trial.ended
            ]
            ended = [work.done for one in account.trials.values() for work in one.ended.values()]
            found[account.name] = {
                "trials": max(account.begun, wanted),
                "completed": account.completed,
                "failed": account.failed,
                "restarts": account.restarts,
                "work_slot_seconds": (account.done + sum(running) + sum(ended)) / SECOND,
                "lost_slot_seconds": account.lost / SECOND,
            }
        return dict(sorted(found.items()))

    def reconcile(self, factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
        """Continue the trials whose pods have ended, and begin others."""
        name = f"{namespace_of(owner)}/{name_of(owner)}"
        account = self._accounts.setdefault(uid_of(owner), _Account(name))
        self._update_options(owner, account, children)
        for trial in list(account.trials.values()):
            self._sync(factory, owner, account, trial, children)
        spec = section(owner, "spec")
        most = whole_at(spec, "maxConcurrentTrials", CONCURRENT_TRIALS)
        while account.begun < whole_at(spec, "trials", 1):
            if most and len(account.trials) >= most:
                break
            account.begun += 1
            account.trials[account.begun] = trial = _Trial(account.begun)
            self._start(factory, owner, trial, children)

    def _update_options(self, owner: Manifest, account: _Account, children: OwnedObjects) -> None:
        """Write options that have changed to the existing pods. Other clients' changes of them stay until then."""
        before, account.options = account.options, _options(owner)
        if before == account.options or not account.begun:
            return
        removed = [key for key in before if key not in account.options]
        for key in children.of("Pod"):
            pod = self._store.find(key)
            if pod is not None:
                there = {**section(pod, "metadata", "annotations"), **account.options}
                for option in removed:
                    there.pop(option, None)
                self._store.put(_POD, changed(pod, "metadata", annotations=there))

    def _sync(
        self,
        factory: ObjectFactory,
        owner: Manifest,
        account: _Account,
        trial: _Trial,
        children: OwnedObjects,
    ) -> None:
        """If all pods of a trial have ended, end the trial or start its next run."""
        for key, uid in trial.pods.items():
            state = children.all.get(key)
            if key not in trial.ended and not _is_alive(state):
                trial.ended[key] = self._trial_runs.work(uid)
                self._trial_runs.forget(uid)
                trial.failures += state is ChildState.FAILED
        works = list(trial.ended.values())
        is_complete = all(work.is_complete for work in works)
        if len(works) < len(trial.pods):
            if not is_complete:
                self._stop_others(factory, trial, children)
            return
        account.done += sum(work.done for work in works)
        if is_complete:
            account.completed += 1
            del account.trials[trial.number]
            return
        kept = min(work.kept for work in works)
        trial.kept += kept
        account.lost += sum(work.done - kept for work in works)
        trial.ended = {}
        if trial.failures > whole_at(section(owner, "spec"), "maxRestarts", RESTARTS_MAX):
            account.failed += 1
            del account.trials[trial.number]
            return
        account.restarts += 1
        before = list(trial.pods)
        self._start(factory, owner, trial, children)
        if len(before) > 1:
            # The pod group stays the same: pods of the earlier run would count for its minimum.
            for key in before:
                if key in children.all:
                    factory.delete_unwanted(key, children)

    def _stop_others(self, factory: ObjectFactory, trial: _Trial, children: OwnedObjects) -> None:
        """Delete the pods of a gang of which one has ended too early, but for those that are asked to release their
        resources: they exit by themselves."""
        for key in trial.pods:
            pod = self._store.find(key)
            is_stopping = children.all.get(key) is ChildState.STOPPING
            if key in trial.ended or pod is None or is_stopping or is_release_requested(pod):
                continue
            factory.delete_unwanted(key, children)

    def _start(
        self, factory: ObjectFactory, owner: Manifest, trial: _Trial, children: OwnedObjects
    ) -> None:
        """Create the pods of the next run of a trial; names that are in use are skipped."""
        namespace, spec = namespace_of(owner), section(owner, "spec")
        count = whole_at(spec, "podsPerTrial", 1)
        task = f"{name_of(owner)}-{trial.number}"
        names: list[str] = []
        while not names or any(self._store.find(("Pod", namespace, one)) for one in names):
            trial.run += 1
            run = f"{task}-r{trial.run}"
            names = [run] if count == 1 else [f"{run}-{index}" for index in range(count)]
        labels = {
            **{key: str(value) for key, value in section(spec, "labels").items()},
            TASK: task,
            DETERMINED_TYPE: TRIAL,
        }
        if count > 1:
            labels |= {COSCHEDULING_GROUP[1]: task, COSCHEDULING_MIN: str(count)}
        common = _annotations(owner, trial)
        trial.pods, trial.ended = {}, {}
        for index, name in enumerate(names):
            annotations = {**common, TASK_INDEX: str(trial.number if count == 1 else index)}
            marks = PodOverrides(labels, annotations, _pod_spec(owner))
            factory.make_pod(owner, children, {}, name, marks=marks)
            key: Key = ("Pod", namespace, name)
            trial.pods[key] = uid_of(self._store.find(key) or {})


def _is_alive(state: ChildState | None) -> bool:
    return state in (ChildState.ACTIVE, ChildState.RUNNING, ChildState.STOPPING)


def _options(owner: Manifest) -> dict[str, str]:
    """Return the annotations of the pods of an experiment that may be changed while it runs."""
    spec = section(owner, "spec")
    return {
        annotation: str(spec[key])
        for key, annotation in _OPTIONS.items()
        if spec.get(key) is not None
    }


def _annotations(owner: Manifest, trial: _Trial) -> dict[str, str]:
    spec = section(owner, "spec")
    annotations = {
        **{key: str(value) for key, value in section(spec, "annotations").items()},
        JOB: name_of(owner),
        SUBMITTED: text_at(section(owner, "metadata"), "creationTimestamp"),
        CHECKPOINT_SECONDS: str(spec.get("checkpointSeconds") or 0),
        **_options(owner),
    }
    if spec.get("workSlotSeconds") is not None:
        work = nanoseconds(str(spec["workSlotSeconds"]))
        of_pod = -(-work // whole_at(spec, "podsPerTrial", 1))
        annotations[WORK_SLOT_SECONDS] = _seconds(max(0, of_pod - trial.kept))
    if spec.get("checkpointEverySeconds") is not None:
        annotations[CHECKPOINT_EVERY_SECONDS] = str(spec["checkpointEverySeconds"])
    if _resource(owner) == CPU:
        annotations[WORK_SLOTS] = str(max(1, _slots(owner)))
    return annotations


def _pod_spec(owner: Manifest) -> dict[str, Json]:
    container: JsonObject = {"name": "trial"}
    if slots := _slots(owner):
        asked: JsonObject = {_resource(owner): str(slots)}
        container["resources"] = {"requests": asked, "limits": asked}
    return {"restartPolicy": "Never", "containers": [container]}


def _slots(owner: Manifest) -> int:
    """The slots of each pod of a trial."""
    spec = section(owner, "spec")
    return -(-whole_at(spec, "slotsPerTrial", 1) // whole_at(spec, "podsPerTrial", 1))


def _resource(owner: Manifest) -> str:
    return text_at(section(owner, "spec"), "resource") or "nvidia.com/gpu"


def _seconds(length_ns: int) -> str:
    """Return a time as an exact decimal number of seconds."""
    whole, rest = divmod(length_ns, SECOND)
    return f"{whole}.{rest:09}".rstrip("0") if rest else str(whole)
