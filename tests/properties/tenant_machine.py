"""Tenants that share a cluster: some of them write on their own objects whatever the API server accepts.

A history is plain data: what each tenant creates, and when, and what the attackers write. It is played by the simulator, with the
daemon's own loop and log: once as it is, and once without what the attackers write.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import ReleaseDecided
from events.normalize import JsonObject
from events.privileges import BUDGET, CLAIM, POD, POD_GROUP, POOLS, QUEUES, ROWS, WORKLOAD
from events.union import Event
from features.table import FEATURES
from projections.devices import device_of
from projections.pods import ALLOCATED
from projections.snapshot import restore, take
from projections.state import State
from replay.log_replay import Replay
from simulator.manifest import VOLCANO_JOB as VOLCANO
from simulator.manifest import Kind, LocatedManifest
from simulator.manifest_fields import merged
from simulator.scenario import Apply, Patch, Scenario, Step, kind_named
from tests.properties.tenant_worlds import ATTACKERS, SHARES, VICTIMS, WORLDS, World
from tests.properties.tenant_writes import (
    BINDING,
    LEAST,
    MIRROR,
    NODE_NAME,
    Write,
    writes,
)
from tests.properties.witness import same

SECOND: Final = 1_000_000_000
UNTIL_SECONDS: Final = 240
LAST_SECONDS: Final = 60
"""The last moment at which a tenant does anything."""
STOP_SECONDS_MAX: Final = 10
WAIT_SECONDS: Final = 120
"""Time within which a pod gets what is its tenant's share: what budgets may refuse and the back-offs after that, what pods
of others take to stop, and cycles."""
PODS_MAX: Final = 4
ATTACKING_PODS_MAX: Final = 8

BATCHES: Final = 8
"""Of so many batches, sums are recounted after one."""


BARE: Final = "bare"
GANG: Final = "gang"
DEPLOYMENT: Final = "Deployment"
EMPTY: Final = "empty"
VOLCANO_JOB: Final = "Job"
OWN_FORMS: Final = (BARE, GANG)
"""Forms of jobs whose pods have names of their own."""
GROUPS: Final = (GANG, EMPTY)
KINDS: Final = {
    BARE: (POD,),
    GANG: (POD, POD_GROUP),
    EMPTY: (POD_GROUP,),
    DEPLOYMENT: (WORKLOAD,),
    VOLCANO_JOB: (WORKLOAD,),
}
"""Form to the kinds of its objects, as the table names them."""


class Job(Struct, frozen=True):
    """Pods of a tenant that come together."""

    tenant: str
    at: int
    """In seconds."""
    size: int
    form: str
    """BARE: single pods; GANG: with a PodGroup that starts them whole; EMPTY: a PodGroup without pods; else the kind of the
    workload that creates them."""
    run_seconds: int = 0
    """0: for ever"""
    stop_seconds: int = 0


class Written(Struct, frozen=True):
    """What an attacker writes on objects of one of its jobs."""

    after: int
    """Seconds after the job; -1: their manifests have it."""
    kind: str
    number: int
    """Of the pod; -1 for all of the job."""
    write: Write


class Attack(Struct, frozen=True):
    """A job of an attacker, and what is written on its objects."""

    job: Job
    written: tuple[Written, ...] = ()
    budget: Write | None = None
    """What is written on a disruption budget for all pods of its namespace; None: there is none."""
    claim: Write | None = None
    """What is written on a volume claim that its single pods use; None: they use none."""


class Common(Struct, frozen=True):
    """What is written on the objects of all jobs of attackers."""

    written: tuple[Written, ...] = ()
    budget: Write | None = None


class Closed(Struct, frozen=True):
    """A time in which the namespace of a tenant has not the label by which it may use its queue."""

    tenant: str
    at: int
    seconds: int


class History(Struct, frozen=True):
    """What tenants do."""

    world: World
    victims: tuple[Job, ...]
    attacks: tuple[Attack, ...]
    closed: tuple[Closed, ...] = ()


class Outcome(Struct):
    """What came of a history."""

    bound: dict[str, float]
    """Pod to the second at which it was bound first."""
    evicted: dict[str, list[str]]
    """Pod to the pod groups in whose favour it was evicted or released."""
    state: State


_MOMENTS: Final = st.integers(1, LAST_SECONDS)


@st.composite
def jobs(draw: st.DrawFn, tenant: str, left: int, forms: tuple[str, ...] = OWN_FORMS) -> Job:
    """Draw a job of at most `left` pods."""
    return Job(
        tenant,
        at=draw(st.integers(1, LAST_SECONDS)),
        size=draw(st.integers(1, min(left, PODS_MAX))),
        form=draw(st.sampled_from(forms)),
        run_seconds=draw(st.sampled_from([0, 0, 0, 20])),
    )


@st.composite
def victims(draw: st.DrawFn, tenant: str, left: int) -> tuple[Job, ...]:
    """Draw the jobs of a tenant, at most `left` pods."""
    found: list[Job] = []
    while left > 0 and len(found) < 3:
        found.append(draw(jobs(tenant, left)))
        left -= found[-1].size
        if not draw(st.booleans()):
            break
    return tuple(found)


@st.composite
def attacks(draw: st.DrawFn, common: Common, *, is_flood: bool = False) -> Attack:
    """Draw a job of an attacker, and writes on its objects beside those that all of its jobs have. With `is_flood` it
    takes two thirds of the cluster from the beginning."""
    job = draw(jobs(draw(st.sampled_from(ATTACKERS)), ATTACKING_PODS_MAX, tuple(KINDS)))
    job = msgspec.structs.replace(
        job,
        at=0 if is_flood else draw(st.integers(0, LAST_SECONDS)),
        size=ATTACKING_PODS_MAX if is_flood else job.size,
        run_seconds=0 if is_flood else job.run_seconds,
        stop_seconds=draw(st.sampled_from([0, 0, 5, STOP_SECONDS_MAX])),
    )
    kinds = list(KINDS[job.form])
    found = [one for one in common.written if one.kind in kinds]
    found += draw(st.lists(_written(kinds, job.size), max_size=2))
    budget = common.budget or draw(st.none() | writes(BUDGET))
    claim = draw(st.sampled_from([False] * 7 + [True])) and draw(writes(CLAIM))
    return Attack(job, tuple(found), budget, claim or None)


@st.composite
def _written(draw: st.DrawFn, kinds: list[str], size: int = 0) -> Written:
    """Draw a write, for all objects of a kind or one of `size` pods."""
    kind = draw(st.sampled_from(kinds))
    write = draw(writes(kind))
    after = -1 if write.is_for_creation else draw(st.just(-1) | st.integers(0, 40))
    number = draw(st.just(-1) | st.integers(0, size - 1)) if size else -1
    return Written(after, kind, number, write)


@st.composite
def histories(draw: st.DrawFn, worlds: tuple[World, ...] = WORLDS) -> History:
    """Draw a history in which victims need no more than their share."""
    world = draw(st.sampled_from(worlds))
    jobs_ = [draw(victims(name, world.promised or SHARES[name])) for name in VICTIMS]
    common = Common(
        tuple(draw(st.lists(_written([POD, POD_GROUP, WORKLOAD]), max_size=2))),
        draw(st.none() | st.none() | writes(BUDGET)),
    )
    floods = [draw(attacks(common, is_flood=True)) for _ in range(draw(st.sampled_from([0, 2])))]
    found = floods + draw(st.lists(attacks(common), min_size=not floods, max_size=3))
    closed = draw(st.none() | st.builds(Closed, st.sampled_from(ATTACKERS), _MOMENTS, _MOMENTS))
    return History(
        world,
        tuple(one for these in jobs_ for one in these),
        tuple(found),
        () if closed is None or world.queue else (closed,),
    )


PRIVILEGED: Final = {row.key for row in ROWS if row.verb and row.resource not in (QUEUES, POOLS)}
"""Rows that need a right of their own, where admission asks for it, and that are bounded. A job that names a queue or pool of
others is refused, which others may notice: another one gets what it would have had."""


def neutral(history: History) -> History:
    """Return the history without what attackers write of privileged keys."""
    return msgspec.structs.replace(
        history, attacks=tuple(_without_privileges(one) for one in history.attacks)
    )


def _without_privileges(attack: Attack) -> Attack:
    kept = tuple(one for one in attack.written if one.write.key not in PRIVILEGED)
    budget = attack.budget
    is_kept = budget is not None and budget.key not in PRIVILEGED
    return Attack(attack.job, kept, budget if is_kept else None, attack.claim)


# As a scenario


def scenario_of(history: History) -> Scenario:
    """Return the scenario that plays a history."""
    cluster = tuple(
        LocatedManifest(kind_named(str(one["kind"])), _whole(one), "")
        for one in (*history.world.cluster, *_common())
    )
    steps = sorted(_steps(history), key=lambda one: one.at_ns)
    return Scenario(
        name="tenants",
        policy=dict(history.world.policy),
        until_ns=UNTIL_SECONDS * SECOND,
        cluster=cluster,
        steps=tuple(steps),
    )


def _common() -> Iterator[JsonObject]:
    for name in (*VICTIMS, *ATTACKERS):
        yield {"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
    for name, value in (("high", 1000), ("low", -10)):
        yield {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _whole(manifest: JsonObject) -> JsonObject:
    return {"apiVersion": kind_named(str(manifest["kind"])).api_version, **manifest}


def _steps(history: History) -> Iterator[Step]:
    for one in history.closed:
        for at, team in ((one.at, "none"), (one.at + one.seconds, one.tenant)):
            merge: JsonObject = {"metadata": {"labels": {"team": team}}}
            yield Patch(at * SECOND, kind_named("Namespace"), "", one.tenant, merge)
    numbers = dict.fromkeys((*VICTIMS, *ATTACKERS), 0)
    attacks_ = [Attack(one) for one in history.victims] + list(history.attacks)
    for attack in attacks_:
        tenant = attack.job.tenant
        name = f"{tenant}-{numbers[tenant]}"
        numbers[tenant] += 1
        yield from _steps_of(history.world, name, attack)


def _steps_of(world: World, name: str, attack: Attack) -> Iterator[Step]:
    job = attack.job
    pods = [f"{name}-{index}" for index in range(job.size)]
    if attack.budget is not None:
        budget: JsonObject = {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": job.tenant},
            "spec": {"selector": {}},
        }
        yield _apply(job.at, budget, [attack.budget])
    if attack.claim is not None:
        claim: JsonObject = {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": job.tenant},
            "spec": {"accessModes": ["ReadWriteMany"], "volumeName": name},
        }
        yield _apply(job.at, claim, [attack.claim])
    if job.form not in (*OWN_FORMS, EMPTY):
        workload = _workload(world, job, name)
        for one in _in_manifest(attack, WORKLOAD):
            workload = _with(workload, _in_workload(job.form, one))
        if job.form == VOLCANO_JOB:
            spec = {**_section(workload, "spec")}
            task: JsonObject = {
                "name": "w",
                "replicas": job.size,
                "template": spec.pop("template"),
            }
            workload = {**workload, "spec": {**spec, "tasks": [task]}}
        yield _apply(job.at, workload, [])
    if job.form in GROUPS:
        group: JsonObject = {
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": job.tenant},
            "spec": {"minMember": job.size, "queue": world.queue or job.tenant},
        }
        if job.form == EMPTY:
            amounts = {**_section(world.resources, "requests"), "cpu": str(job.size)}
            group = _with(group, {"spec": {"minResources": amounts}})
        yield _apply(job.at, group, _in_manifest(attack, POD_GROUP))
    for index, pod in enumerate(pods if job.form in OWN_FORMS else ()):
        manifest = _pod(world, job, name, pod)
        if attack.claim is not None:
            volume: JsonObject = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
            manifest = _with(manifest, {"spec": {"volumes": [volume]}})
        yield _apply(job.at, manifest, _in_manifest(attack, POD, index))
    for later in attack.written:
        if later.after < 0:
            continue
        at = (job.at + later.after) * SECOND + SECOND // 2
        if later.kind == WORKLOAD:
            merge: JsonObject = {"metadata": later.write.merge.get("metadata", {})}
            yield Patch(at, _kind(job.form), job.tenant, name, merge)
            continue
        names = (
            [name]
            if later.kind == POD_GROUP
            else pods
            if later.number < 0
            else [pods[later.number]]
        )
        for of in names:
            yield Patch(at, kind_named(later.kind), job.tenant, of, later.write.merge)


def _in_workload(form: str, write: Write) -> JsonObject:
    """Return what a write is in the manifest of a workload: its metadata are also those of the template."""
    found: JsonObject = {}
    if "metadata" in write.merge:
        meta = write.merge["metadata"]
        found = {"metadata": meta, "spec": {"template": {"metadata": meta}}}
    spec = _section(write.merge, "spec")
    if form == VOLCANO_JOB and write.key in ("spec.queue", "spec.priorityClassName"):
        found = _with(found, {"spec": spec})
    if write.key in (LEAST, "spec.queue"):
        least = spec.get("minMember")
        is_accepted = isinstance(least, int) and 0 <= least < 2**31
        if form == VOLCANO_JOB and is_accepted:
            found = _with(found, {"spec": {"minAvailable": least}})
    elif spec:
        found = _with(found, {"spec": {"template": {"spec": spec}}})
    return found


def _section(value: JsonObject, key: str) -> JsonObject:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _in_manifest(attack: Attack, kind: str, index: int = -1) -> list[Write]:
    return [
        one.write
        for one in attack.written
        if one.after < 0 and one.kind == kind and one.number in (-1, index)
    ]


def _kind(form: str) -> Kind:
    return VOLCANO if form == VOLCANO_JOB else kind_named(form)


def _apply(at: int, manifest: JsonObject, written: list[Write]) -> Apply:
    for one in written:
        manifest = _with(manifest, one.merge)
    kind = _kind(str(manifest["kind"]))
    return Apply(at * SECOND, kind, {**manifest, "apiVersion": kind.api_version})


def _with(manifest: JsonObject, merge: JsonObject) -> JsonObject:
    found = merged(manifest, merge)
    assert isinstance(found, dict)
    return found


def _workload(world: World, job: Job, name: str) -> JsonObject:
    """Return a workload, with its template in `spec.template`."""
    pod = _pod(world, job, name, name)
    template: JsonObject = {
        "metadata": {
            "labels": {"app": name},
            "annotations": _section(_section(pod, "metadata"), "annotations"),
        },
        "spec": _section(pod, "spec"),
    }
    meta: JsonObject = {"name": name, "namespace": job.tenant}
    if job.form == DEPLOYMENT:
        template = _with(template, {"spec": {"restartPolicy": "Always"}})
        selector: JsonObject = {"matchLabels": {"app": name}}
        spec: JsonObject = {"replicas": job.size, "selector": selector, "template": template}
    else:
        spec = {"minAvailable": job.size, "queue": world.queue or job.tenant, "template": template}
    return {"kind": job.form, "metadata": meta, "spec": spec}


def _pod(world: World, job: Job, group: str, name: str) -> JsonObject:
    annotations: JsonObject = {**world.annotations}
    if job.form == GANG:
        annotations["scheduling.k8s.io/group-name"] = group
    else:
        annotations["scheduling.volcano.sh/queue-name"] = world.queue or job.tenant
    if job.run_seconds:
        annotations["muster.sh/run-seconds"] = str(job.run_seconds)
    if job.stop_seconds:
        annotations["muster.sh/stop-seconds"] = str(job.stop_seconds)
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": job.tenant, "annotations": annotations},
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "containers": [{"name": "m", "resources": world.resources}],
        },
    }


# What comes of it


def play(history: History) -> Outcome:
    """Play a history, and hold its log to what must hold always."""
    return asyncio.run(_play(history))


async def _play(history: History) -> Outcome:
    log = MemoryLog()
    end = await simulate(scenario_of(history), log, with_views=False)
    entries = [entry async for entries in log.read() for entry in entries]
    judge, replay, batch = Judge(end.state), Replay(), -1
    tail: State | None = None
    half = entries[len(entries) // 2].record.batch
    for entry in entries:
        record = entry.record
        if record.batch != batch:
            batch = record.batch
            for state in (replay.state, tail):
                if state is not None:
                    state.settle()
            judge.look(replay.state)
            if tail is None and batch >= half:
                tail = restore(take(replay.state), FEATURES)
        event = event_of(record)
        divergence = replay.take(record, entry.content)
        assert divergence is None, divergence
        if tail is not None:
            tail.apply(record, event, entry.content)
        judge.hear(event)
    assert replay.finish() is None
    assert tail is not None
    for state in (replay.state, tail):
        state.settle()
    judge.look(replay.state)
    same(replay.state, end.state)
    same(tail, end.state)
    end.state.validate()
    for call in end.cluster.journal:
        if call.verb == "bind" and call.result == "done":
            at, tenant = call.at_ns / SECOND, _tenant(call.subject)
            judge.outcome.bound.setdefault(call.subject, at)
            for one in history.closed:
                is_closed = one.tenant == tenant and one.at < at < one.at + one.seconds
                assert not is_closed, f"{call.subject} enters a queue at {at} s that it may not use"
    return judge.outcome


class Judge:
    """Looks at State whenever a batch is folded, and hears every event."""

    def __init__(self, end: State) -> None:
        self.outcome = Outcome({}, {}, end)
        self._given: dict[str, tuple[str, tuple[str, ...]]] = {}
        """UID of a pod to the node and devices that a decision gave it."""
        self._batches = 0

    def hear(self, event: Event) -> None:
        """Note decisions."""
        match event:
            case EvictionDecided() | ReleaseDecided():
                for item in event.items():
                    favour = self.outcome.evicted.setdefault(item.pod, [])
                    favour.append(item.in_favour_of)
            case GangBindDecided() | BackfillBindDecided():
                for one in event.placements:
                    self._given[one.uid] = (one.node, one.devices)
            case _:
                pass

    def look(self, state: State) -> None:
        """Sums add up, no device is given twice, and pods keep those that they were given."""
        self._batches += 1
        if self._batches % BATCHES == 0:
            state.validate()
        holders: dict[tuple[str, str], list[str]] = {}
        for uid in list(self._given):
            pod = state.cluster.pods.get(uid)
            node, devices = self._given[uid]
            if pod is None or not pod.occupies or pod.node != node:
                del self._given[uid]
                continue
            for device in devices:
                holders.setdefault((node, device_of(device)), []).append(pod.key)
            if pod.facts.namespace in VICTIMS:
                assert pod.devices == devices, f"{pod.key} has {pod.devices} instead of {devices}"
        for pod in state.cluster.pods.values():
            # A queue is not charged any more for pods that are evicted or terminate.
            is_charged = pod.charge and pod.status in ALLOCATED
            queue = state.cluster.groups[pod.group_key].queue if is_charged else ""
            is_other = queue in VICTIMS and pod.facts.namespace != queue
            assert not is_other, f"{pod.key} is charged to queue {queue}"
        for (node, device), pods in holders.items():
            # Every pod of a victim is given whole devices.
            is_shared = len(pods) > 1 and any(one.partition("/")[0] in VICTIMS for one in pods)
            assert not is_shared, f"{device} of {node} is given to {pods}"


# What tenants were promised

EXCUSES: Final = {
    NODE_NAME: "takes room without a decision",
    BINDING: "the same",
    MIRROR: "the same, and is not evicted",
}
"""Rows by which a tenant may delay others, as the table says, to how."""


def may_delay(write: Write) -> bool:
    """Return whether a tenant may delay others by a write: besides those rows, by required anti-affinity to their pods."""
    affinity = _section(_section(write.merge, "spec"), "affinity")
    return write.key in EXCUSES or "podAntiAffinity" in affinity


def written(history: History) -> Iterator[Write]:
    """Yield what attackers write."""
    for attack in history.attacks:
        yield from [one.write for one in attack.written]
        if attack.budget is not None:
            yield attack.budget
        if attack.claim is not None:
            yield attack.claim


def created_at(history: History) -> dict[str, int]:
    """Return the second at which each pod of a victim is created."""
    found: dict[str, int] = {}
    numbers = dict.fromkeys(VICTIMS, 0)
    for job in history.victims:
        name = f"{job.tenant}/{job.tenant}-{numbers[job.tenant]}"
        numbers[job.tenant] += 1
        found |= {f"{name}-{index}": job.at for index in range(job.size)}
    return found


def check(history: History) -> Outcome:
    """Play a history, and hold what comes of it to what tenants were promised."""
    found = play(history)
    created = created_at(history)
    is_excused = any(may_delay(one) for one in written(history))
    if history.world.promised:
        for pod in created:
            others = ATTACKERS if history.world.levels_shares else (*VICTIMS, *ATTACKERS)
            of_others = [
                one
                for one in found.evicted.get(pod, ())
                if _tenant(one) in others and _tenant(one) != _tenant(pod)
            ]
            assert not of_others, f"{pod} is evicted for {of_others}"
        if not is_excused:
            for pod, created_s in created.items():
                # A pod that was evicted for another one of its tenant does not come back.
                bound = found.bound.get(pod, UNTIL_SECONDS)
                late = f"{pod} of {created_s} s is bound at {bound} s"
                assert bound <= created_s + WAIT_SECONDS, late
        return found
    plain = play(neutral(history))
    has_budgets = any(one.budget is not None for one in history.attacks)
    if has_budgets and history.world.levels_shares:
        return found  # A budget delays the end of a job beyond its share, which counts in the shares of others until then.
    for pod in created if not has_budgets else ():
        assert len(found.evicted.get(pod, ())) <= len(plain.evicted.get(pod, ())), (
            f"{pod} is evicted for {found.evicted[pod]}"
        )
    if history.world.is_wait_compared and not is_excused:
        for pod, at in plain.bound.items():
            if pod in created:
                bound = found.bound.get(pod, UNTIL_SECONDS)
                assert bound <= at + WAIT_SECONDS, f"{pod} is bound at {bound} s, not at {at} s"
    return found


def _tenant(key: str) -> str:
    return key.partition("/")[0]


def things_of_note(history: History, outcome: Outcome) -> Iterator[str]:
    """Yield what of note happened."""
    for pod in outcome.bound:
        yield f"{'a victim' if _tenant(pod) in VICTIMS else 'an attacker'} is bound"
    for pod, favour in outcome.evicted.items():
        yield f"{'a victim' if _tenant(pod) in VICTIMS else 'an attacker'} is evicted"
        if any(_tenant(one) in VICTIMS for one in favour):
            yield "a pod is evicted for a victim"
    for attack in history.attacks:
        for one in attack.written:
            yield "something is written"
            yield f"written: {one.write.key}"


def text_of(history: History) -> str:
    """Return a history as text, to be read or to be made a scenario."""
    found = [f"world: {history.world.name}", *[f"closed: {one}" for one in history.closed]]
    for attack in [Attack(one) for one in history.victims] + list(history.attacks):
        found.append(f"job: {attack.job}")
        for one in attack.written:
            when = "in the manifest" if one.after < 0 else f"{one.after}.5 s later"
            found.append(f"  {one.kind} {one.number}, {when}: {one.write.merge}")
        if attack.budget is not None:
            found.append(f"  budget: {attack.budget.merge}")
        if attack.claim is not None:
            found.append(f"  claim: {attack.claim.merge}")
    return "\n".join(found)
