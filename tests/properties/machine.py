"""Any history that a cluster could write, played against the core without a loop around it."""

from typing import ClassVar

import msgspec
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.batch import Batch
from engine.engine import Engine
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import (
    Answer,
    BindRequest,
    EvictRequest,
    OutcomeUnknown,
    PodGroupPhaseRequest,
    Rejected,
    Reply,
    Request,
)
from events.record import GENESIS
from features.table import FEATURES
from projections import quota_charging
from projections.pod_groups import COMPLETED
from projections.queues import add
from projections.snapshot import restore, take
from projections.state import State
from tests.properties import shapes
from tests.properties.api import Api
from tests.properties.folds import check_folds
from tests.properties.overlooked import overlooked
from tests.properties.witness import Witness, same

SECOND = 1_000_000_000
AGAIN_MAX = 3
"""Cycles in a row although nothing happens, beside one for each group without hope: what one decides may be room
for other groups, such as the reservation that a group that never fits loses."""

lives = st.sampled_from(
    [[], ["done"], ["done"], ["done", "done"], ["refused", "done"], ["unheard"], [""]]
)
"""What follows on what happens: rounds of life, each with how requests are answered, if at all."""


class History(RuleBasedStateMachine):
    """A cluster that changes as it likes, a core that decides, and a witness of the log."""

    volume_kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds about volumes that the daemon lists; without them no claim can be used (`claim_machine.py`)."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()
        self.witness = Witness()
        self.engine = Engine(State(FEATURES), GENESIS)
        self.now_ns = 0
        self.policy = b""
        self.is_checked = False
        """Whether State was looked at since the daemon last did something."""

    @initialize(
        policy=st.sampled_from(shapes.POLICIES),
        nodes=st.lists(shapes.plain_nodes() | shapes.nodes(), min_size=1, max_size=3),
        queues=st.lists(shapes.plain_queues() | shapes.queues(), min_size=3, max_size=3),
        gangs=st.lists(shapes.gangs(), min_size=2, max_size=4),
        life=lives,
    )
    def begin(
        self,
        policy: bytes,
        nodes: list[shapes.Shape],
        queues: list[shapes.Shape],
        gangs: list[shapes.Gang],
        life: list[str],
    ) -> None:
        """A cluster with waiting pods, and a daemon that has just listed it."""
        self.api.put("PriorityClass", "high", {"value": 5})
        for index, (meta, body) in enumerate(nodes):
            self.api.put("Node", f"n{index + 1}", body, meta)
        for name, (meta, body) in zip(("default", "qa", "qb"), queues, strict=True):
            self.api.put("Queue", name, body, meta)
        for index, gang in enumerate(gangs):
            self._put_gang(f"j{index + 1}", gang)
        self._start(policy)
        self._live(life)

    # What happens in the cluster

    @rule(name=shapes.node_names, shape=shapes.nodes(), life=lives)
    def node_comes_or_changes(self, name: str, shape: shapes.Shape, life: list[str]) -> None:
        meta, body = shape
        self.api.put("Node", name, body, meta)
        self._live(life)

    @rule(name=shapes.node_names)
    def node_goes(self, name: str) -> None:
        if name in self.api.names("Node"):
            self.api.remove("Node", name)

    @rule(name=shapes.queue_names, shape=shapes.queues(), life=lives)
    def queue_comes_or_changes(self, name: str, shape: shapes.Shape, life: list[str]) -> None:
        meta, body = shape
        self.api.put("Queue", name, body, meta)
        self._live(life)

    @rule(name=shapes.queue_names)
    def queue_goes(self, name: str) -> None:
        if name in self.api.names("Queue"):
            self.api.remove("Queue", name)

    @rule(value=st.integers(-1, 9))
    def priority_class_changes(self, value: int) -> None:
        self.api.put("PriorityClass", "high", {"value": value})

    @rule(name=shapes.group_names, body=shapes.groups())
    def group_comes_or_changes(self, name: str, body: shapes.Body) -> None:
        self.api.put("PodGroup", name, body)

    @rule(name=shapes.group_names | shapes.gang_names)
    def group_goes(self, name: str) -> None:
        if name in self.api.names("PodGroup"):
            self.api.remove("PodGroup", name)

    @rule(
        shape=shapes.pods(),
        names=st.sets(shapes.pod_names, min_size=1, max_size=4),
        life=lives,
    )
    def pods_come(self, shape: shapes.Shape, names: set[str], life: list[str]) -> None:
        meta, body = shape
        for name in sorted(names - set(self.api.names("Pod"))):
            self.api.put("Pod", name, body, meta)
        self._live(life)

    @rule(name=shapes.gang_names, gang=shapes.gangs(), life=lives)
    def gang_comes(self, name: str, gang: shapes.Gang, life: list[str]) -> None:
        self._put_gang(name, gang)
        self._live(life)

    @rule(name=shapes.pod_names, node=shapes.node_names, shape=shapes.pods())
    def foreign_pod_comes(self, name: str, node: str, shape: shapes.Shape) -> None:
        meta, body = shape
        if name not in self.api.names("Pod"):
            spec = {**_section(body, "spec"), "schedulerName": "other", "nodeName": node}
            spec.pop("schedulingGates", None)
            self.api.put("Pod", name, {"spec": spec, "status": {"phase": "Running"}}, meta)

    @rule(name=shapes.any_pod_names)
    def pod_is_let_through(self, name: str) -> None:
        if name in self.api.names("Pod"):
            spec = self.api.section("Pod", name, "spec")
            if spec.pop("schedulingGates", None):
                self.api.put("Pod", name, {"spec": spec})

    @rule(name=shapes.any_pod_names, phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    def pod_moves_on(self, name: str, phase: str) -> None:
        if name in self.api.names("Pod"):
            is_over = self.api.section("Pod", name, "status")["phase"] in ("Succeeded", "Failed")
            if self.api.section("Pod", name, "spec").get("nodeName") and not is_over:
                self.api.put("Pod", name, {"status": {"phase": phase}})

    @rule(name=shapes.any_pod_names)
    def pod_is_told_to_stop(self, name: str) -> None:
        if name in self.api.names("Pod"):
            self.api.put("Pod", name, {}, {"deletionTimestamp": "1970-01-01T01:00:00Z"})

    @rule(name=shapes.any_pod_names)
    def pod_goes(self, name: str) -> None:
        if name in self.api.names("Pod"):
            self.api.remove("Pod", name)

    @precondition(lambda self: self._promised())
    @rule(data=st.data())
    def group_with_a_promise_changes(self, data: st.DataObject) -> None:
        """Its PodGroup goes or needs more pods than there are, or its queue goes."""
        group = self.engine.state.cluster.groups[data.draw(st.sampled_from(self._promised()))]
        name = group.key.partition("/")[2]
        match data.draw(st.sampled_from(["group", "minimum", "queue"])):
            case "queue" if group.queue in self.api.names("Queue"):
                self.api.remove("Queue", group.queue)
            case "minimum" if name in self.api.names("PodGroup"):
                spec = self.api.section("PodGroup", name, "spec")
                self.api.put("PodGroup", name, {"spec": {**spec, "minMember": 9}})
            case "group" if name in self.api.names("PodGroup"):
                self.api.remove("PodGroup", name)
            case _:
                pass

    def _promised(self) -> list[str]:
        return [
            key for key, one in self.engine.state.cluster.groups.items() if one.decided.nominations
        ]

    @precondition(lambda self: self._with_cards())
    @rule(data=st.data())
    def quota_is_withdrawn(self, data: st.DataObject) -> None:
        """A queue loses its quota of cards while its pods have some."""
        name = data.draw(st.sampled_from(self._with_cards()))
        self.api.put("Queue", name, {}, {"annotations": {shapes.QUOTA: '{"A": 0}'}})

    def _with_cards(self) -> list[str]:
        queues = self.engine.state.cluster.queues
        return [
            name
            for name in self.api.names("Queue")
            if name in queues and queues[name].allocated.get("A", 0) > 0
        ]

    # What the daemon does

    @rule(count=st.integers(1, 30))
    def watch(self, count: int) -> None:
        self.is_checked = False
        taken, self.api.unseen = self.api.unseen[:count], self.api.unseen[count:]
        self.witness.take(self.engine.observe(taken, self.now_ns))

    @rule(seconds=st.integers(0, 3))
    def cycle(self, seconds: int) -> None:
        self.is_checked = False
        self.now_ns += seconds * SECOND
        held = []
        while (batch := self.engine.cycle(self.now_ns)) is not None:
            self.witness.take(batch)
            held.append(told(batch))
            lost = sum('"never_fits":true' in one for records in held for one in records)
            assert len(held) <= AGAIN_MAX + lost, f"no end of cycles: {held}"

    def _live(self, answers: list[str]) -> None:
        """What is most of the time, a round for each answer: all is seen and decided, everything asked for is
        answered alike, pods run, and owners replace them."""
        for answer in answers:
            self.watch(1000)
            self.cycle(1)
            for request in list(self.engine.requests()) if answer else ():
                self._answer(request, answer)
            self.api.run_on()

    @rule()
    def settle(self) -> None:
        """See everything, decide, carry it out, until nothing is left to be done."""
        for _ in range(20):
            self.watch(1000)
            self.cycle(1)
            requests = list(self.engine.requests())
            for request in requests:
                self.witness.take(
                    self.engine.report([Answer(request, self._do(request))], self.now_ns)
                )
            if not requests and not self.api.unseen and self.engine.state.next_deadline_ns is None:
                assert self.engine.cycle(self.now_ns) is None
                missed = overlooked(self.engine, self.now_ns)
                assert not missed, f"no cycle decided it: {missed}"
                return
            if not requests and not self.api.unseen:
                # Waits for victims and back-offs last longer than the others.
                deadline = self.engine.state.next_deadline_ns or 0
                self.now_ns = max(self.now_ns + 64 * SECOND, deadline)
        raise AssertionError("a cluster that is left alone does not come to rest")

    @rule()
    def settle_with_owners(self) -> None:
        """Observe and decide everything, with owners that replace evicted pods, until nothing is due."""
        for _ in range(60):
            before = len(self.witness.log)
            self.settle()
            self.api.run_on()
            if not self.api.unseen and len(self.witness.log) == before:
                return
        evicted = [one.body.decode() for one, _ in self.witness.log if "eviction_d" in one.kind]
        raise AssertionError(f"evictions do not end: {evicted[-6:]}")

    @precondition(
        lambda self: (
            self.engine.state.commitments or self.engine.state.cluster.pending_status.phases
        )
    )
    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        requests = list(self.engine.requests())
        request = data.draw(st.sampled_from(requests))
        self._answer(
            request, data.draw(st.sampled_from(["done", "done", "refused", "lost", "unheard"]))
        )

    @rule(policy=st.sampled_from((None, None, *shapes.POLICIES)))
    def restart(self, policy: bytes | None) -> None:
        """A daemon that knows nothing but the log starts from a snapshot and lists everything."""
        self.is_checked = False
        self.engine = Engine(restore(take(self.engine.state), FEATURES), self.engine.head)
        same(self.engine.state, self.witness.state)
        self._start(policy)

    # What holds

    @invariant()
    def sums_add_up_and_state_is_a_fold_of_the_log(self) -> None:
        """What happens in the cluster alone changes no State: it is looked at where the daemon did something."""
        if self.is_checked:
            return
        self.engine.state.validate()
        self.engine.decider.session.queue_order.audit()
        if self.engine.state.cluster.nodes.is_laid_out:
            self.engine.decider.session.preemptible.audit()
        assert self.engine.head == self.witness.replay.head
        same(self.engine.state, self.witness.state)
        self.is_checked = True

    @invariant()
    def groups_reserve_no_more_than_the_rest_of_their_minimum(self) -> None:
        """An ended group reserves nothing; another one what it has neither got nor been nominated to of its minimum."""
        cluster = self.engine.state.cluster
        for group in cluster.groups.values():
            least = quota_charging.min_request(cluster, group) or {}
            held = dict(group.allocated)
            for one in group.decided.nominations.values():
                add(held, one.charge, 1)
            for name, amount in group.reservation.inqueue:
                have = sum(
                    held.get(one, 0) for one in quota_charging.cards_of_charge(cluster, name)
                )
                assert amount + min(have, least.get(name, 0)) <= least.get(name, 0), (
                    f"{group.key} reserves {amount} {name} and has {have} of {least}"
                )
            if group.decided.phase == COMPLETED:
                assert not group.reservation.inqueue, (
                    f"{group.key} has ended and reserves {group.reservation.inqueue}"
                )

    def teardown(self) -> None:
        """Nothing is left undecided, and a fold that leaves indexes out ends in the same State."""
        assert self.witness.replay.finish() is None
        self.witness.state.validate()
        if check_folds(self.witness.log, self.witness.state):
            self.witness.reached["a fold leaves indexes out"] += 1
        for one in self.witness.reached:
            event(one)

    def _start(self, policy: bytes | None) -> None:
        changed = None
        if policy is not None and policy != self.policy:
            self.policy = policy
            changed = PolicyChanged(source="test", policy=msgspec.Raw(policy))
        started = DaemonStarted(
            holder="test",
            version="0",
            period_ns=SECOND,
            scheduler_names=("muster",),
            volume_kinds=self.volume_kinds,
        )
        self.is_checked = False
        epoch = self.engine.head.epoch + 1
        self.witness.take(self.engine.start(started, changed, epoch, self.now_ns))
        self.engine.begin_listing()
        self.witness.take(self.engine.observe(self.api.listing(self.volume_kinds), self.now_ns))

    def _put_gang(self, name: str, gang: shapes.Gang) -> None:
        group, (meta, body), size = gang
        annotations = {**_section(meta, "annotations"), shapes.GROUP: name}
        self.api.put("PodGroup", name, group)
        for pod in (f"{name}-{index}" for index in range(size)):
            if pod not in self.api.names("Pod"):
                self.api.put("Pod", pod, body, {**meta, "annotations": annotations})

    def _answer(self, request: Request, how: str) -> None:
        """Answer a request: it is done, refused, lost before the server, or done and its answer lost."""
        self.is_checked = False
        reply: Reply
        match how:
            case "refused":
                reply = Rejected("Forbidden", "no")
            case "lost":
                reply = OutcomeUnknown("no answer")
            case "unheard":
                self._do(request)
                reply = OutcomeUnknown("no answer")
            case _:
                reply = self._do(request)
        self.witness.take(self.engine.report([Answer(request, reply)], self.now_ns))

    def _do(self, request: Request) -> Reply:
        if isinstance(request, BindRequest):
            return self.api.bind(request)
        if isinstance(request, EvictRequest):
            return self.api.evict(request)
        assert isinstance(request, PodGroupPhaseRequest)
        return self.api.tell(request)


def told(batch: Batch) -> list[str]:
    """The records of a batch, in short."""
    return [f"{one.kind} {one.subject} {one.body.decode()}" for one in batch.records]


def _section(body: shapes.Body, name: str) -> shapes.Body:
    found = body[name]
    assert isinstance(found, dict)
    return found
