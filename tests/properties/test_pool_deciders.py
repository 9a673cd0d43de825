"""Pools that are decided by priority, fair share or round robin, over any history: nodes come, go, are closed and change their
pool; jobs come, go, and change their numbers; pods that are asked to exit do so when they like; the daemon restarts.

Every decision is held to what users were promised (determined 1.6, 2.7, 3.4, 3.5, 3.9 and 5.3). The judge knows the objects
and the decisions, and counts for itself. From the deciders it takes the formula of the shares alone, which has tests of its
own.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field, structs

from engine.engine import Engine
from events.codec import event_of
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.release import RELEASE, ReleaseDecided
from events.messages import Accepted, Answer, BindRequest, EvictRequest, PodMarkRequest
from events.normalize import JsonObject
from events.record import GENESIS, Record
from events.union import Event
from features.pools.facts import PoolFacts
from features.pools.fair_share_offers import ShareGroup, offers
from features.table import FEATURES
from projections.snapshot import restore, take
from projections.state import State
from tests.example_count import examples
from tests.properties.api import Api
from tests.properties.witness import Witness, same
from tests.structure import check_apart, check_same, structure_of

SECOND: Final = 1_000_000_000
MICROSECOND: Final = 1_000
GPU: Final = "nvidia.com/gpu"
POOL: Final = "example.com/pool"
AUX_MAX: Final = 2
OTHERS: Final = 3
"""Number of the node that is in the other pool at first."""
CYCLES_MAX: Final = 12
"""Cycles in a row although nothing happens."""
SOAK_EXAMPLES: Final = 3000
UNREADY_SECONDS: Final = 4
CLOSED: Final = -1
"""The region of nodes that no waiting job may use."""
BASE: Final = {
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
    "configurations": [{"name": "cycle", "arguments": {"notReadyTimeout": f"{UNREADY_SECONDS}s"}}],
}
"""What a policy has beside its pools."""

Options = Mapping[str, object]


class Pod(Struct):
    """A pod, as the judge sees it."""

    name: str
    uid: str
    group: str
    node: str = ""
    is_shown: bool = False
    """Whether the API server has its node."""
    is_over: bool = False
    """Whether it has succeeded."""
    is_evicted: bool = False
    asked_for: str | None = None
    """The group in whose favour it was asked to exit; "" if it is for none."""

    @property
    def holds(self) -> bool:
        """Whether it counts for its job: it has a node, and is not killed."""
        return bool(self.node) and not self.is_over and not self.is_evicted

    @property
    def occupies(self) -> bool:
        """Whether it is still on its node."""
        return bool(self.node) and not self.is_over

    @property
    def waits(self) -> bool:
        return not self.node and not self.is_over and not self.is_evicted


class Job(Struct):
    """A job: one or two pod groups that are alike."""

    name: str
    groups: list[str]
    options: dict[str, str]
    slots: int
    """Of each pod."""
    least: int
    """Pods that start together, of each group; 1 for none."""
    has_objects: bool
    """Whether its groups are PodGroups, not labels on pods."""
    submitted: int
    tolerates: bool = False
    """Whether its pods tolerate the taint of tainted nodes."""
    pods: dict[str, Pod] = field(default_factory=dict)

    @property
    def pool(self) -> str:
        return self.options["muster.sh/pool"]

    @property
    def is_preemptible(self) -> bool:
        return self.options.get("muster.sh/preemptible", "true") == "true"

    @property
    def most(self) -> int | None:
        most = self.options.get("muster.sh/max-slots")
        return None if most is None else int(most)

    @property
    def held(self) -> int:
        return sum(self.slots for one in self.pods.values() if one.holds)

    @property
    def position(self) -> Fraction:
        stated = self.options.get("muster.sh/queue-position")
        return Fraction(self.submitted * 10**6) if stated is None else Fraction(stated)

    def of(self, group: str) -> list[Pod]:
        return [one for one in self.pods.values() if one.group == group]


class Room(Struct):
    """A node, as the judge sees it."""

    slots: int
    pool: str
    is_closed: bool = False
    is_tainted: bool = False
    is_ready: bool = True
    foreign: int = 0
    """Slots that a pod of another scheduler holds."""


class Share(Struct):
    """What the judge finds for a job under fair share, by region."""

    offers: dict[int, int]
    held: dict[int, int]
    nodes: dict[int, list[str]]
    """Region to its nodes."""

    @property
    def slots(self) -> int:
        return sum(self.offers.values())

    def region_of(self, node: str) -> int:
        return next((at for at, names in self.nodes.items() if node in names), CLOSED)


class Cluster:
    """The cluster, the daemon and the judge."""

    def __init__(self, pools: tuple[Options, ...], sizes: list[int]) -> None:
        self.api, self.witness, self.engine = Api(), Witness(), Engine(State(FEATURES), GENESIS)
        self.pools = {f"p{at}": one for at, one in enumerate(pools)}
        self.now_ns = 1000 * SECOND
        self.nodes: dict[str, Room] = {}
        self.jobs: dict[str, Job] = {}
        self.job_of: dict[str, Job] = {}
        """Group to its job."""
        self.count = 0
        self.names: dict[str, str] = {}
        """UID of a pod to its job."""
        self.bound: dict[str, int] = {}
        """UID of a pod to the number of its binding."""
        given_ = [
            {"name": name, "nodeSelector": {POOL: name}, "maxAuxContainers": AUX_MAX, **one}
            for name, one in self.pools.items()
        ]
        policy = msgspec.json.encode({**BASE, "pools": given_})
        self._start(PolicyChanged(source="test", policy=msgspec.Raw(policy)))
        for at, size in enumerate(sizes):
            self._put_node(f"n{at}", Room(size, "p1" if at == OTHERS else "p0"))
        self.live()

    # Steps

    def take(self, what: str, *numbers: object) -> None:
        """One step, and what comes of it."""
        getattr(self, f"_{what}")(*numbers)
        self.live()
        if what == "hold":
            return
        self._carry_out()
        self.live()

    def _both(self, shape: dict[str, object], other: dict[str, object]) -> None:
        self._job(shape)
        self._job(other, 1)

    def _job(self, shape: dict[str, object], later: int = 0) -> None:
        self.count += 1
        name = f"j{self.count}"
        size, slots, count = shape["size"], shape["slots"], shape["groups"]
        assert isinstance(size, int)
        assert isinstance(slots, int)
        assert isinstance(count, int)
        options = shape["options"]
        assert isinstance(options, dict)
        submitted = self.now_ns // SECOND + later
        options = {**options, "muster.sh/submitted-at": _time(submitted)}
        if count > 1:
            options["muster.sh/job"] = name
        least = size if shape["is_gang"] else 1
        has_objects = bool(shape["has_objects"]) or least == 1
        groups = [f"{name}{letter}" for letter in "ab"[:count]]
        extra = size + (shape["extra"] is True)
        job = self.jobs[name] = Job(
            name, groups, options, slots, least, has_objects, submitted, bool(shape["tolerates"])
        )
        for group in groups:
            self.job_of[f"default/{group}"] = job
            self._put_group(job, group)
            for at in range(extra):
                self._put_pod(job, group, f"{group}-{at}")

    def _end(self, number: int, count: int) -> None:
        """Pods end by themselves."""
        for _, pod in self._some(number, count, lambda pod: pod.is_shown):
            pod.is_over = True
            self.api.put("Pod", pod.name, {"status": {"phase": "Succeeded"}})

    def _exit(self, number: int, count: int) -> None:
        """Pods that were asked to exit do so, and come again."""
        for job, pod in self._some(number, count, lambda pod: pod.asked_for is not None):
            self.api.remove("Pod", pod.name)
            del job.pods[pod.name]
            self._put_pod(job, pod.group, pod.name)

    def _lose(self, number: int, comes_again: bool) -> None:
        """Delete a pod from outside."""
        for job, pod in self._some(number, 1, lambda _: True):
            self.api.remove("Pod", pod.name)
            del job.pods[pod.name]
            if comes_again:
                self._put_pod(job, pod.group, pod.name)

    def _cancel(self, number: int) -> None:
        if self.jobs:
            job = self.jobs.pop(list(self.jobs)[number % len(self.jobs)])
            for name in job.pods:
                self.api.remove("Pod", name)
            for group in job.groups:
                if job.has_objects:
                    self.api.remove("PodGroup", group)
                del self.job_of[f"default/{group}"]

    def _set(self, number: int, key: str, value: str) -> None:
        """A number of a job is changed live."""
        live = [one for one in self.jobs.values() if one.has_objects]
        if live:
            job = live[number % len(live)]
            job.options[f"muster.sh/{key}"] = value
            for group in job.groups:
                self._put_group(job, group)

    def _node(self, number: int, slots: int, pool: str) -> None:
        name = f"n{number}"
        room = self.nodes.get(name)
        if room is None:
            room = Room(slots, pool)
        self._put_node(name, structs.replace(room, slots=slots, pool=pool))

    def _remove(self, number: int, comes_again: bool) -> None:
        name = f"n{number}"
        if name in self.nodes:
            del self.nodes[name]
            self.api.remove("Node", name)
            if self.api.objects.get(("Pod", f"foreign-{name}")):
                self.api.remove("Pod", f"foreign-{name}")
            for job in self.jobs.values():
                for pod in [one for one in job.pods.values() if one.node == name]:
                    self.api.remove("Pod", pod.name)
                    del job.pods[pod.name]
                    if comes_again:
                        self._put_pod(job, pod.group, pod.name)

    def _close(self, number: int) -> None:
        name = f"n{number}"
        if name in self.nodes:
            room = self.nodes[name]
            self._put_node(name, structs.replace(room, is_closed=not room.is_closed))

    def _taint(self, number: int) -> None:
        name = f"n{number}"
        if name in self.nodes:
            room = self.nodes[name]
            self._put_node(name, structs.replace(room, is_tainted=not room.is_tainted))

    def _fail(self, number: int) -> None:
        """A node fails, without a taint, or is ready again."""
        name = f"n{number}"
        if name in self.nodes:
            room = self.nodes[name]
            self._put_node(name, structs.replace(room, is_ready=not room.is_ready))

    def _foreign(self, number: int, slots: int) -> None:
        """A pod of another scheduler comes to a node with room for it, or goes."""
        name = f"n{number}"
        if name not in self.nodes:
            return
        room = self.nodes[name]
        if room.foreign:
            self.api.remove("Pod", f"foreign-{name}")
            room.foreign = 0
            return
        room.foreign = max(0, min(slots, room.slots - self._used(name)))
        if room.foreign:
            requests: JsonObject = {GPU: str(room.foreign)}
            spec: JsonObject = {
                "schedulerName": "other",
                "nodeName": name,
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            }
            meta: JsonObject = {"creationTimestamp": _time(self.now_ns // SECOND)}
            body: JsonObject = {"spec": spec, "status": {"phase": "Running"}}
            self.api.put("Pod", f"foreign-{name}", body, meta)

    def _wait(self, seconds: int) -> None:
        self.now_ns += seconds * SECOND

    def _hold(self, shape: dict[str, object]) -> None:
        """A job comes, and requests are left unanswered for now."""
        self._job(shape)

    def _restart(self) -> None:
        self.engine = Engine(restore(take(self.engine.state), FEATURES), self.engine.head)
        same(self.engine.state, self.witness.state)
        self._start(None)

    def _fork(self) -> None:
        """What a fork decides leaves the original as it was."""
        self._observe()
        before = structure_of(self.engine.state)
        fork = self.engine.state.fork()
        check_same(before, structure_of(fork), "copying")
        check_apart(self.engine.state, fork)
        for name in self.pools:
            fork.cluster.tables.of(PoolFacts).dirty[name] = None
        Engine(fork, self.engine.head).cycle(self.now_ns + 20 * SECOND)
        fork.validate()
        check_same(before, structure_of(self.engine.state), "a fork")

    def _some(self, number: int, count: int, is_meant: "object") -> Iterator[tuple[Job, Pod]]:
        assert callable(is_meant)
        found = [
            (job, pod) for job in self.jobs.values() for pod in job.pods.values() if is_meant(pod)
            and not pod.is_over
        ]  # fmt: skip
        yield from [found[(number + at) % len(found)] for at in range(min(count, len(found)))]

    # Objects

    def _put_node(self, name: str, room: Room) -> None:
        self.nodes[name] = room
        amounts: JsonObject = {"cpu": "999", "memory": "999Gi", "pods": "110", GPU: str(room.slots)}
        self.api.put(
            "Node",
            name,
            {
                "spec": {
                    "unschedulable": room.is_closed,
                    "taints": [{"key": "special", "effect": "NoSchedule"}] * room.is_tainted,
                },
                "status": {
                    "allocatable": amounts,
                    "conditions": [
                        {"type": "Ready", "status": "True" if room.is_ready else "False"}
                    ],
                },
            },
            {"labels": {POOL: room.pool}},
        )

    def _put_group(self, job: Job, name: str) -> None:
        if job.has_objects:
            meta: JsonObject = {
                "annotations": dict(job.options),
                "creationTimestamp": _time(job.submitted),
            }
            self.api.put("PodGroup", name, {"spec": {"minMember": job.least}}, meta)

    def _put_pod(self, job: Job, group: str, name: str) -> None:
        group = group.removeprefix("default/")
        notes: JsonObject = {"scheduling.k8s.io/group-name": group}
        labels: JsonObject = {}
        if not job.has_objects:
            notes = dict(job.options)
            labels = {
                "pod-group.scheduling.sigs.k8s.io/name": group,
                "pod-group.scheduling.sigs.k8s.io/min-available": str(job.least),
            }
        requests: JsonObject = {"cpu": "1"}
        if job.slots:
            requests[GPU] = str(job.slots)
        self.api.put(
            "Pod",
            name,
            {
                "spec": {
                    "schedulerName": "muster",
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                    "tolerations": [{"key": "special", "operator": "Exists"}] * job.tolerates,
                },
                "status": {"phase": "Pending"},
            },
            {
                "annotations": notes,
                "labels": labels,
                "creationTimestamp": _time(self.now_ns // SECOND),
            },
        )
        uid = self.api.section("Pod", name, "metadata")["uid"]
        assert isinstance(uid, str)
        job.pods[name] = Pod(name, uid, f"default/{group}")
        self.names[uid] = job.name

    # The daemon

    def _start(self, changed: PolicyChanged | None) -> None:
        started = DaemonStarted(
            holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
        )
        epoch = self.engine.head.epoch + 1
        self.witness.take(self.engine.start(started, changed, epoch, self.now_ns))
        self.engine.begin_listing()
        self.witness.take(self.engine.observe(self.api.listing(), self.now_ns))

    def _observe(self) -> None:
        taken, self.api.unseen = self.api.unseen, []
        self.witness.take(self.engine.observe(taken, self.now_ns))
        self.engine.state.validate()

    def live(self) -> None:
        """All is seen, and decided until there is nothing to decide."""
        self._observe()
        for _ in range(CYCLES_MAX):
            self.now_ns += SECOND
            twin = Engine(restore(take(self.engine.state), FEATURES), self.engine.head)
            batch = self.engine.cycle(self.now_ns)
            other = twin.cycle(self.now_ns)
            assert (batch is None) == (other is None)
            if batch is not None and other is not None:
                assert _told(batch.records) == _told(other.records), "a State from a snapshot"
                self.witness.take(batch)
                self.engine.state.validate()
                self._judge([event_of(one) for one in batch.records])
            if not self.engine.state.cluster.tables.of(PoolFacts).dirty:
                break
        else:
            raise AssertionError("passes do not end")
        self._judge_rest()
        self._judge_again()

    def _carry_out(self) -> None:
        for request in list(self.engine.requests()):
            if isinstance(request, BindRequest):
                reply = self.api.bind(request)
                if isinstance(reply, Accepted):
                    self.api.put("Pod", request.name, {"status": {"phase": "Running"}})
                    self.jobs[self.names[request.uid]].pods[request.name].is_shown = True
            elif isinstance(request, EvictRequest):
                reply = self.api.evict(request)
            else:
                reply = Accepted()
                if isinstance(request, PodMarkRequest):
                    meta = self.api.section("Pod", request.name, "metadata")
                    notes = {**_section(meta, "annotations"), **request.annotations}
                    labels = {**_section(meta, "labels"), **request.labels}
                    self.api.put("Pod", request.name, {}, {"annotations": notes, "labels": labels})
            self.witness.take(self.engine.report([Answer(request, reply)], self.now_ns))

    # The judge

    def _judge(self, events: list[Event]) -> None:
        """Judge the decisions of a cycle."""
        overdue = [
            one for one in events if isinstance(one, EvictionDecided) and one.code == "DEADLINE"
        ]
        for late in overdue:
            for pod in self._pods(late):
                assert pod.asked_for is not None, f"{pod.name} is evicted and was not asked"
                assert not pod.is_evicted
                pod.is_evicted = True
        before = {name: self._offers(name) for name in self.pools}
        left = {
            (name, at): sum(
                job.slots
                for one in job.pods.values()
                if one.holds and one.asked_for is None and share.region_of(one.node) == at
            )
            for shares in before.values()
            for name, share in shares.items()
            for job in [self.jobs[name]]
            for at in share.offers
        }
        was_in_flight = self._is_in_flight
        standing: set[str | None] = {one.asked_for for one in self._all() if one.asked_for}
        starts: list[GangBindDecided] = []
        releases: list[EvictionDecided] = []
        for one in events:
            is_refusal = isinstance(one, PodGroupUnschedulable)
            assert not is_refusal or getattr(one, "code", "") != "InternalError", one
            assert "action_failed" not in one.kind, one
            if isinstance(one, GangBindDecided):
                starts.append(one)
                self._judge_start(one, before)
            elif isinstance(one, EvictionDecided) and one.code != "DEADLINE":
                releases.append(one)
                self._judge_release(one, before, left)
        for name, options in self.pools.items():
            mine = [one for one in starts if self.job_of[one.pod_group].pool == name]
            asked = [one for one in releases if self.job_of[one.pod_group].pool == name]
            if options["decider"] == "fair_share":
                self._judge_shares(name, mine, asked, before[name], left)
            if options["decider"] == "priority":
                self._judge_causes(name, mine, asked, standing, is_sure=not was_in_flight)

    def _judge_start(self, one: GangBindDecided, before: dict[str, dict[str, Share]]) -> None:
        job = self.job_of[one.pod_group]
        decider = self.pools[job.pool]["decider"]
        event(f"{decider} starts{' a gang' if job.least > 1 else ''}")
        if isinstance(one, BackfillBindDecided):
            event(f"{decider} backfills")
            assert decider == "priority"
            assert self.pools[job.pool].get("preemption", True)
            assert job.is_preemptible, f"{one.pod_group} is backfilled and not preemptible"
        for placed in one.placements:
            pod = job.pods[placed.pod.removeprefix("default/")]
            assert pod.uid == placed.uid
            assert pod.waits
            room = self.nodes[placed.node]
            assert self._may_use(job, room), f"{placed.node} is closed, tainted or in another pool"
            pod.node = placed.node
            self.bound[pod.uid] = len(self.bound)
            used = self._used(placed.node)
            assert not job.slots or used + room.foreign <= room.slots, (
                f"{placed.node}: {used} and {room.foreign} of {room.slots}"
            )
            if not job.slots:
                aux = [p for p in self._all() if p.occupies and p.node == placed.node]
                count = sum(not self.job_of[p.group].slots for p in aux)
                assert count <= AUX_MAX, f"{placed.node} has {count} pods without slots"
        if job.least > 1:
            stay = [
                pod
                for pod in job.of(one.pod_group)
                if pod.is_over or (pod.holds and pod.asked_for is None)
            ]
            assert len(stay) >= job.least, f"{one.pod_group} is bound in part"
        else:
            assert len(one.placements) == 1
        if decider != "round_robin" and job.most is not None and job.slots:
            assert job.held <= job.most, f"{job.name} holds {job.held} of {job.most}"
        if decider == "fair_share" and job.slots:
            share = before[job.pool][job.name]
            most = sum(max(offer, share.held.get(at, 0)) for at, offer in share.offers.items())
            most += self._leaving_pool(job)
            assert job.held <= most, f"{job.name} holds {job.held} and may hold {most}"

    def _judge_release(
        self,
        one: EvictionDecided,
        before: dict[str, dict[str, Share]],
        left: dict[tuple[str, int], int],
    ) -> None:
        job = self.job_of[one.pod_group]
        options = self.pools[job.pool]
        assert one.action == RELEASE
        event(
            f"{options['decider']} releases: {one.code}{'' if isinstance(one, ReleaseDecided) else ' at once'}"
        )
        assert job.is_preemptible, f"{one.pod_group} is not preemptible"
        pods = list(self._pods(one))
        for pod in pods:
            assert pod.holds
            assert pod.asked_for is None, f"{pod.name} is asked twice"
        if job.least > 1 and len(pods) > 1:
            there = [pod for pod in job.of(one.pod_group) if pod.holds]
            assert len(pods) == min(job.least, len(there)), "half a gang"
        if one.code == "PREEMPTED":
            assert options["decider"] == "priority"
            assert options.get("preemption", True)
            cause = self.job_of[one.in_favour_of]
            assert any(pod.waits for pod in cause.of(one.in_favour_of))
            assert cause.pool == job.pool
            assert cause is not job
            assert bool(cause.slots) == bool(job.slots), "another class"
            mine, its = self._rank(job), self._rank(cause)
            assert mine >= its, f"{job.name} is more important than {cause.name}"
            if mine == its:
                event("same level")
                assert options.get("sameLevelPreemption") != "off"
                assert job.position > cause.position
        elif one.code == "OVER_FAIR_SHARE":
            assert options["decider"] == "fair_share"
            share = before[job.pool][job.name]
            regions = {share.region_of(pod.node) for pod in pods}
            assert any(left[job.name, at] > share.offers[at] for at in regions), (
                f"{job.name}: {left} of {share} are left"
            )
        else:
            assert one.code == "POOL_CHANGED", one.code
            assert any(self.nodes[pod.node].pool != job.pool for pod in pods)
        for pod in pods:
            if (found := before[job.pool].get(job.name)) is not None:
                left[job.name, found.region_of(pod.node)] -= job.slots
            pod.asked_for = one.in_favour_of
            pod.is_evicted = not isinstance(one, ReleaseDecided)

    def _judge_shares(
        self,
        pool: str,
        starts: list[GangBindDecided],
        releases: list[EvictionDecided],
        found: dict[str, Share],
        left: dict[tuple[str, int], int],
    ) -> None:
        """No job both starts and releases; one that is above its offer comes down to it, if it can."""
        up = {self.job_of[one.pod_group].name for one in starts if self.job_of[one.pod_group].slots}
        down = {
            self.job_of[one.pod_group].name for one in releases if one.code == "OVER_FAIR_SHARE"
        }
        assert not up & down, "a job both starts and releases"
        for name in down:
            job = self.jobs[name]
            share = found[name]
            assert any(share.held.get(at, 0) > offer for at, offer in share.offers.items())
            stay = [
                one
                for one in job.pods.values()
                if one.holds and one.asked_for is None and self._pool_of(one.node) in ("", pool)
            ]
            # A pod beyond the minimum of a gang that is leaving is asked when the others are gone.
            is_mixed = job.least > 1 and any(
                len(job.of(f"default/{group}")) > job.least for group in job.groups
            )
            if all(one.is_shown for one in stay) and not is_mixed:
                for at, offer in share.offers.items():
                    there = [one for one in stay if share.region_of(one.node) == at]
                    assert left[name, at] <= offer or not there

    def _judge_causes(
        self,
        pool: str,
        starts: list[GangBindDecided],
        releases: list[EvictionDecided],
        standing: set[str | None],
        *,
        is_sure: bool,
    ) -> None:
        """Victims are enough, and not more than needed. While a task waits for victims, none that is less important
        starts."""
        new = {one.in_favour_of for one in releases if one.code == "PREEMPTED"}
        for cause in sorted(new) if is_sure else ():
            job = self.job_of[cause]
            later, total = self._free(job, is_later=True), self._total(job)
            tasks = self._queued(job, cause)
            assert any(self._fits(pool, later, total, one, job.slots) for one in tasks), (
                f"the victims for {cause} are not enough"
            )
            only = len(new | {one for one in standing if one in self.job_of}) == 1
            if only and len(tasks) == 1 and not starts and self._is_first(job, pool) and job.slots:
                self._judge_each(cause, tasks[0], releases)
        for has_slots in (True, False):
            waiting = [
                self.job_of[one.asked_for]
                for one in self._all()
                if one.asked_for in self.job_of
                and bool(self.job_of[one.group].slots) == has_slots
                and self.job_of[one.asked_for].pool == pool
                and bool(self.job_of[one.asked_for].slots) == has_slots
                and any(pod.waits for pod in self.job_of[one.asked_for].of(one.asked_for))
                and (one.asked_for in new or self._will_fit(one.asked_for))
                and not any(start.pod_group == one.asked_for for start in starts)
            ]
            if not waiting:
                continue
            first = min(map(self._rank, waiting))
            event("waits for victims")
            for start in starts:
                job = self.job_of[start.pod_group]
                if bool(job.slots) == has_slots:
                    assert self._rank(job) <= first, (
                        f"{job.name} starts, and {waiting[0].name} waits"
                    )

    def _will_fit(self, cause: str) -> bool:
        """Whether a task fits when all pods that were asked to have exited, and its job may hold it."""
        job = self.job_of[cause]
        if any(one.asked_for is not None or one.is_evicted for one in job.of(cause)):
            return False
        if not job.slots:
            return False
        later, total = self._free(job, is_later=True), self._total(job)
        return self._is_first(job, job.pool) and any(
            self._fits(job.pool, later, total, count, job.slots)
            and (job.most is None or job.held + count * job.slots <= job.most)
            for count in self._queued(job, cause)
        )

    def _judge_each(self, cause: str, count: int, releases: list[EvictionDecided]) -> None:
        """Without any one of the victims the task does not fit."""
        pool = self.job_of[cause].pool
        if self.pools[pool].get("pruneVictims") is False:
            return
        mine = [one for one in releases if one.in_favour_of == cause and one.code == "PREEMPTED"]
        event("victims are all needed")
        for kept in mine:
            later = self._free(self.job_of[cause], is_later=True)
            total = self._total(self.job_of[cause])
            victim = self.job_of[kept.pod_group]
            for pod in kept.evictions:
                if pod.node in later:
                    later[pod.node] -= victim.slots
            assert not self._fits(pool, later, total, count, self.job_of[cause].slots), (
                f"{kept.pod_group} is released for {cause} and need not be"
            )

    def _judge_rest(self) -> None:
        """At rest, no task waits that should have started."""
        for name, options in self.pools.items():
            found = self._offers(name)
            asked = any(
                one.asked_for and name in (self.job_of[one.group].pool, self._pool_of(one.node))
                for one in self._all()
            )
            for job in self.jobs.values():
                if job.pool != name or not job.slots:
                    continue
                free, total = self._free(job), self._total(job)
                for group in job.groups:
                    key = f"default/{group}"
                    if any(one.asked_for is not None or one.is_evicted for one in job.of(key)):
                        continue
                    for count in self._queued(job, key):
                        slots = count * job.slots
                        fits = self._fits(name, free, total, count, job.slots)
                        if options["decider"] == "fair_share":
                            share = found.get(job.name)
                            fits = share is not None and any(
                                share.held.get(at, 0) + slots <= offer
                                and self._fits(
                                    name, *_inside(free, total, share.nodes[at]), count, job.slots
                                )
                                for at, offer in share.offers.items()
                                if at in share.nodes
                            )
                        elif options["decider"] == "priority":
                            under = job.most is None or job.held + slots <= job.most
                            fits = fits and under and self._is_first(job, name) and not asked
                        assert not fits, f"{key} could start {count} pods, and does not"

    def _judge_again(self) -> None:
        """Another pass over the same State decides nothing, if no node stops counting meanwhile."""
        cluster = self.engine.state.cluster
        ends = cluster.unready_nodes.deadlines(cluster)
        if any(one <= self.now_ns + SECOND for one in ends):
            return
        fork = self.engine.state.fork()
        for name in self.pools:
            fork.cluster.tables.of(PoolFacts).dirty[name] = None
        batch = Engine(fork, self.engine.head).cycle(self.now_ns + SECOND)
        assert batch is not None
        decided = [event_of(record) for record in batch.records]
        if not any(getattr(one, "code", "") == "DEADLINE" for one in decided):
            allowed = (CycleOpened, PodGroupUnschedulable) if self._is_in_flight else CycleOpened
            assert all(isinstance(one, allowed) for one in decided), decided

    # What the judge counts

    @property
    def _is_in_flight(self) -> bool:
        """Whether bindings have no outcome: such pods are asked to exit when they have one."""
        return any(one.holds and not one.is_shown for one in self._all())

    def _all(self) -> Iterable[Pod]:
        return (pod for job in self.jobs.values() for pod in job.pods.values())

    def _pods(self, one: EvictionDecided) -> Iterator[Pod]:
        for evicted in one.evictions:
            pod = self.jobs[self.names[evicted.uid]].pods[evicted.pod.removeprefix("default/")]
            assert pod.uid == evicted.uid
            assert pod.node == evicted.node
            yield pod

    def _used(self, node: str) -> int:
        return sum(
            self.job_of[one.group].slots for one in self._all() if one.occupies and one.node == node
        )

    def _pool_of(self, node: str) -> str:
        return self.nodes[node].pool if node in self.nodes else ""

    def _may_use(self, job: Job, room: Room) -> bool:
        return (
            room.pool == job.pool and not room.is_closed and (job.tolerates or not room.is_tainted)
        )

    def _total(self, job: Job) -> dict[str, int]:
        """The slots of the nodes that a job may use."""
        return {name: one.slots for name, one in self.nodes.items() if self._may_use(job, one)}

    def _free(self, job: Job, *, is_later: bool = False) -> dict[str, int]:
        """The free slots of the nodes that a job may use: now, or when all have exited that were asked to in favour of
        others."""
        free = {name: slots - self.nodes[name].foreign for name, slots in self._total(job).items()}
        for one in self._all():
            if (
                one.occupies
                and one.node in free
                and not (is_later and (one.is_evicted or one.asked_for))
            ):
                free[one.node] -= self.job_of[one.group].slots
        return free

    def _leaving_pool(self, job: Job) -> int:
        """The slots that a job holds on nodes of other pools, and that it is asked to release for that reason."""
        if not job.is_preemptible:
            return 0
        return sum(
            job.slots * len(pods)
            for pods in self._tasks_with_nodes(job)
            if any(self._pool_of(one.node) not in ("", job.pool) for one in pods)
        )

    def _tasks_with_nodes(self, job: Job) -> Iterator[list[Pod]]:
        """The pods of each running task, as they were bound."""
        for group in job.groups:
            pods = [one for one in job.of(f"default/{group}") if one.holds]
            pods.sort(key=lambda one: (self.bound[one.uid], one.name))
            least = job.least if job.least > 1 else 0
            if least and pods:
                yield pods[:least]
            yield from ([one] for one in pods[least:])

    def _fits(
        self, pool: str, free: dict[str, int], total: dict[str, int], count: int, slots: int
    ) -> bool:
        """Whether pods that start together fit: on one node, or as the pool places those of several nodes."""
        need = count * slots
        if not slots or any(one >= need for one in free.values()):
            return True
        if count == 1:
            return False
        if self.pools[pool].get("multiNode") == "by_pod":
            return sum(max(0, one) // slots for one in free.values()) >= count
        idle = [total[name] for name, one in free.items() if one == total[name] > 0]
        return any(
            width % slots == 0 and need % width == 0 and idle.count(width) * width >= need
            for width in set(idle)
        )

    def _rank(self, job: Job) -> int:
        is_lower = self.pools[job.pool].get("priorityDirection") == "lower_first"
        stated = job.options.get("muster.sh/priority")
        number = (42 if is_lower else 50) if stated is None else int(stated)
        return number if is_lower else -number

    def _is_first(self, job: Job, pool: str) -> bool:
        """Whether no waiting job with slots is more important."""
        others = [
            one
            for one in self.jobs.values()
            if one.pool == pool and one.slots and any(pod.waits for pod in one.pods.values())
        ]
        return all(self._rank(job) <= self._rank(one) for one in others)

    def _queued(self, job: Job, group: str) -> list[int]:
        """The number of pods of each task that waits."""
        pods = job.of(group)
        waiting = sum(one.waits for one in pods)
        if job.least <= 1:
            return [1] * waiting
        if sum(not one.is_evicted for one in pods) < job.least:
            return []
        lacking = job.least - sum(one.is_over or one.holds for one in pods)
        if sum(
            one.is_over or (one.holds and one.asked_for is None) for one in pods
        ) < job.least and any(one.holds and one.asked_for is not None for one in pods):
            return []
        return [1] * waiting if lacking <= 0 else [lacking]

    def _left(self, pool: str) -> dict[str, int]:
        """The slots of the nodes of a pool that its jobs could use when what runs in it has ended."""
        counts = self.engine.state.cluster.unready_nodes.counts
        left = {
            name: one.slots - one.foreign
            for name, one in self.nodes.items()
            if one.pool == pool and counts(name)
        }
        for one in self._all():
            if one.node in left and one.holds and one.asked_for is None:
                job = self.job_of[one.group]
                left[one.node] -= job.slots if job.pool != pool else 0
        return left

    def _offers(self, pool: str) -> dict[str, Share]:
        if self.pools[pool]["decider"] != "fair_share":
            return {}
        left = self._left(pool)
        jobs: list[tuple[Job, list[int], list[list[Pod]]]] = []
        rows: dict[str, frozenset[str]] = {}
        for job in self.jobs.values():
            if job.pool != pool or not job.slots:
                continue
            usable = {
                name: slots
                for name, slots in left.items()
                if self._may_use(job, self.nodes[name]) and slots >= job.slots
            }
            total = {name: self.nodes[name].slots for name in usable}
            capacity = self._capacity(pool, left)
            queued = [
                count * job.slots
                for group in job.groups
                for count in self._queued(job, f"default/{group}")
                if count * job.slots <= (capacity if job.most is None else min(job.most, capacity))
                and self._fits(pool, usable, total, count, job.slots)
            ]
            running = [
                pods
                for pods in self._tasks_with_nodes(job)
                if not job.is_preemptible
                or all(self._pool_of(one.node) in ("", pool) for one in pods)
            ]
            if queued or running:
                jobs.append((job, queued, running))
            if queued:
                rows[job.name] = frozenset(usable)
        users: dict[str, frozenset[frozenset[str]]] = {}
        for row in rows.values():
            for name in row:
                users[name] = frozenset(one for one in rows.values() if name in one)
        nodes: dict[int, list[str]] = {}
        ordered = sorted(
            set(users.values()), key=lambda of: (len(of), min(n for n in users if users[n] == of))
        )
        for at, of in enumerate(ordered):
            nodes[at] = [name for name in users if users[name] == of]
        return self._allotted(pool, jobs, rows, nodes, left)

    def _capacity(self, pool: str, left: dict[str, int]) -> int:
        total = 0
        for name, room in self.nodes.items():
            if room.pool == pool:
                is_open = name in left and not room.is_closed
                own = sum(
                    self.job_of[one.group].slots
                    for one in self._all()
                    if one.holds
                    and one.node == name
                    and (self.job_of[one.group].pool == pool or one.asked_for is not None)
                )
                total += max(0, left[name]) if is_open else own
        return total

    def _allotted(
        self,
        pool: str,
        jobs: list[tuple[Job, list[int], list[list[Pod]]]],
        rows: dict[str, frozenset[str]],
        nodes: dict[int, list[str]],
        left: dict[str, int],
    ) -> dict[str, Share]:
        shares = {job.name: Share({}, {}, nodes) for job, _, _ in jobs}
        basis = "equal" if self.pools[pool].get("shareBasis") == "equal" else "demand"
        for at in (CLOSED, *nodes):
            groups: list[ShareGroup] = []
            charged = 0
            for job, queued, running in jobs:
                share = shares[job.name]
                there = [
                    sum(job.slots for one in pods if share.region_of(one.node) == at)
                    for pods in running
                ]
                share.held[at] = sum(there)
                may = at != CLOSED and bool(rows.get(job.name, frozenset()) & set(nodes[at]))
                if not sum(there) and not may:
                    share.offers[at] = 0
                    continue
                granted = sum(share.offers.values())
                held = sum(job.slots * len(pods) for pods in running)
                demand = held + sum(queued)
                if job.most is not None:
                    demand = max(0 if job.is_preemptible else held, min(demand, job.most))
                later = sum(
                    job.slots
                    for pods in running
                    for one in pods
                    if share.region_of(one.node) not in (at, *share.offers)
                )
                waiting = sum(queued) - sum(
                    max(0, share.offers[one] - share.held[one]) for one in share.offers
                )
                fixed = 0 if job.is_preemptible else sum(there)
                wanted = sum(there) + (waiting if may else 0)
                rest = demand - granted - (0 if job.is_preemptible else later)
                wanted = max(fixed, min(wanted, rest))
                if at == CLOSED:
                    share.offers[at] = wanted
                    continue
                slots = sum(left[name] for name in nodes[at])
                fitting = [one for one in queued if one <= slots] if may else []
                kept = [
                    job.slots * len(pods)
                    for pods, held_there in zip(running, there, strict=True)
                    if held_there and job.is_preemptible
                ]
                weight = Fraction(job.options.get("muster.sh/weight", "1"))
                charged += granted
                groups.append(
                    ShareGroup(
                        key=job.name,
                        weight_numerator=weight.numerator,
                        weight_denominator=weight.denominator,
                        demand=granted + wanted,
                        fixed=granted + fixed,
                        age=(job.submitted,),
                        smallest_queued=min((*fitting, *kept)) if fitting else 0,
                    )
                )
            if at != CLOSED:
                slots = sum(left[name] for name in nodes[at])
                found = offers(slots + charged, groups, "equal" if basis == "equal" else "demand")
                for name, offer in found.items():
                    share = shares[name]
                    share.offers[at] = offer.slots - sum(share.offers.values())
        return shares


def _inside(
    free: dict[str, int], total: dict[str, int], names: list[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """The entries of these nodes."""
    return (
        {name: one for name, one in free.items() if name in names},
        {name: one for name, one in total.items() if name in names},
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _told(records: list[Record]) -> list[tuple[str, str, bytes]]:
    return [(one.kind, one.subject, one.body) for one in records]


def _section(obj: JsonObject, name: str) -> JsonObject:
    found = obj.get(name)
    return dict(found) if isinstance(found, dict) else {}


# Histories

NUMBERS: Final = st.integers(0, 9)
KEYS: Final = {
    "priority": st.sampled_from(["1", "3", "60", "70", "99"]),
    "weight": st.sampled_from(["1", "2", "0.5", "3"]),
    "max-slots": st.sampled_from(["0", "1", "2", "4", "6"]),
    "preemptible": st.sampled_from(["true", "false"]),
    "preemption-timeout": st.sampled_from(["0s", "4s", "1h"]),
    "queue-position": st.sampled_from(["1", "2", "1e9"][:2]),
}
STATED: Final[dict[str, list[str | None]]] = {
    "muster.sh/pool": ["p0", "p0", "p0", "p0", "p0", "p1"],
    "muster.sh/priority": [None, "1", "2", "3", "4", "60", "70"],
    "muster.sh/weight": [None, None, "2", "0.5", "3"],
    "muster.sh/max-slots": [None, None, None, None, "2", "6"],
    "muster.sh/preemptible": [None, None, None, None, "false"],
    "muster.sh/preemption-timeout": [None, None, "0s", "4s"],
}
OPTIONS: Final = st.fixed_dictionaries(
    {key: st.sampled_from(values) for key, values in STATED.items()}
).map(lambda stated: {key: value for key, value in stated.items() if value is not None})
JOBS: Final = st.fixed_dictionaries(
    {
        "size": st.sampled_from([1, 2, 2, 3, 4, 8]),
        "slots": st.sampled_from([1, 1, 1, 1, 2, 2, 2, 3, 4, 0]),
        "groups": st.sampled_from([1, 1, 1, 2]),
        "is_gang": st.sampled_from([False, False, True]),
        "has_objects": st.sampled_from([True, True, False]),
        "extra": st.sampled_from([False, False, False, True]),
        "tolerates": st.sampled_from([False, False, False, True]),
        "options": OPTIONS,
    }
)
CHANGES: Final = st.one_of(
    *(st.tuples(st.just("set"), NUMBERS, st.just(key), values) for key, values in KEYS.items()),
    st.tuples(st.just("set"), NUMBERS, st.just("priority"), KEYS["priority"]),
    st.tuples(st.just("set"), NUMBERS, st.just("pool"), st.sampled_from(["p0", "p1"])),
)
NODES: Final = st.integers(0, 4)
EXITS: Final = st.tuples(st.just("exit"), NUMBERS, st.sampled_from([1, 2, 9, 9, 9]))
COMES: Final = st.tuples(st.just("job"), JOBS)
STEPS: Final = st.lists(
    st.one_of(
        COMES,
        COMES,
        COMES,
        st.tuples(st.just("both"), JOBS, JOBS),
        st.tuples(st.just("both"), JOBS, JOBS),
        EXITS,
        EXITS,
        EXITS,
        EXITS,
        CHANGES,
        CHANGES,
        CHANGES,
        st.tuples(st.just("hold"), JOBS),
        st.tuples(st.just("end"), NUMBERS, st.integers(1, 4)),
        st.tuples(st.just("end"), NUMBERS, st.integers(1, 4)),
        st.tuples(st.just("lose"), NUMBERS, st.booleans()),
        st.tuples(st.just("cancel"), NUMBERS),
        st.tuples(
            st.just("node"), NODES, st.integers(1, 8), st.sampled_from(["p0", "p0", "p0", "p1"])
        ),
        st.tuples(st.just("remove"), NODES, st.booleans()),
        st.tuples(st.just("close"), NODES),
        st.tuples(st.just("taint"), NODES),
        st.tuples(st.just("fail"), NODES),
        st.tuples(st.just("foreign"), NODES, st.integers(1, 4)),
        st.tuples(st.just("wait"), st.sampled_from([1, 6, 9])),
        st.tuples(st.just("restart")),
        st.tuples(st.just("fork")),
    ),
    min_size=8,
    max_size=14,
)
START: Final = st.lists(COMES, min_size=2, max_size=4)
HISTORIES: Final = st.tuples(START, STEPS).map(lambda two: [*two[0], *two[1]])
DECIDERS: Final[dict[str, Options]] = {
    "priority": {"decider": "priority"},
    "priority, lower first": {
        "decider": "priority",
        "priorityDirection": "lower_first",
        "sameLevelPreemption": "off",
        "fitting": "worst",
    },
    "priority, by pod": {"decider": "priority", "multiNode": "by_pod", "pruneVictims": False},
    "priority without preemption": {"decider": "priority", "preemption": False},
    "fair share": {"decider": "fair_share"},
    "fair share, equal": {
        "decider": "fair_share",
        "shareBasis": "equal",
        "fairShareVictims": "newest",
        "multiNode": "by_pod",
    },
    "round robin": {"decider": "round_robin"},
}
SIZES: Final = st.lists(st.sampled_from([1, 2, 4, 4, 6, 8]), min_size=1, max_size=4)


def play(decider: str, other: str, sizes: list[int], steps: list[tuple[object, ...]]) -> Cluster:
    cluster = Cluster((DECIDERS[decider], DECIDERS[other]), sizes)
    for what, *numbers in steps:
        cluster.take(str(what), *numbers)
    assert cluster.witness.replay.finish() is None
    return cluster


@pytest.mark.parametrize("decider", DECIDERS)
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(DECIDERS)), SIZES, HISTORIES)
def test_pools_keep_what_is_promised(
    decider: str, other: str, sizes: list[int], steps: list[tuple[object, ...]]
) -> None:
    play(decider, other, sizes, steps)


@pytest.mark.soak
@pytest.mark.parametrize("decider", DECIDERS)
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(DECIDERS)), SIZES, HISTORIES)
def test_pools_keep_what_is_promised_in_many_histories(
    decider: str, other: str, sizes: list[int], steps: list[tuple[object, ...]]
) -> None:
    play(decider, other, sizes, steps)
