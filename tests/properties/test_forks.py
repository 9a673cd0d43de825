"""A fork of State and its original go on apart, and each equals a State folded from its own log alone."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import DaemonStarted
from events.messages import Answer, Rejected
from events.record import Head, Record
from features.table import FEATURES
from projections.state import State
from tests.example_count import examples
from tests.properties import shapes
from tests.properties.machine import SECOND, History
from tests.structure import check_apart, check_same, structure_of


class Side:
    """A fork, the head and the number of records of its log, and what it held when it was made."""

    def __init__(self, history: History) -> None:
        self.state = history.engine.state.fork()
        self.structure = structure_of(self.state)
        self.head: Head = history.engine.head
        self.now_ns = history.now_ns
        self.log = list(history.witness.log)

    def go_on(self, history: History, how: str) -> None:
        """Restart on the fork: list the cluster as it is now, decide, and let requests be rejected."""
        engine = Engine(self.state, self.head)
        batches: list[Batch | None] = []
        started = DaemonStarted(
            holder="side", version="0", period_ns=SECOND, scheduler_names=(how,)
        )
        batches.append(engine.start(started, None, self.head.epoch + 1, self.now_ns))
        engine.begin_listing()
        batches.append(engine.observe(history.api.listing(), self.now_ns))
        for turn in range(3):
            now_ns = self.now_ns + turn * SECOND
            batches.append(engine.cycle(now_ns))
            answers = [Answer(one, Rejected("Forbidden", "no")) for one in engine.requests()]
            batches.append(engine.report(answers, now_ns))
        contents = {
            one.digest: one.content
            for batch in batches
            if batch is not None
            for one in batch.objects
        }
        for batch in batches:
            for record in () if batch is None else batch.records:
                content = None if record.object is None else contents.get(record.object)
                if record.object is not None and content is None:
                    content = history.witness.content(record.object)
                self.log.append((record, content))
        self.state.validate()
        check_same(compared(folded(self.log)), compared(self.state), "the fork, not its log,")


def folded(log: list[tuple[Record, bytes | None]]) -> State:
    """A State made from a log alone."""
    state = State(FEATURES)
    for record, content in log:
        state.apply(record, event_of(record), content)
    state.settle()
    return state


def compared(state: State) -> list[str]:
    """All that a State holds; what has changed since views were written depends on who writes them."""
    state.cluster.clear_changed_rows()
    return structure_of(state)


class Forked(History):
    """A history whose State is forked at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.side: Side | None = None

    @rule(how=st.sampled_from(["muster", "muster", "other"]))
    def fork(self, how: str) -> None:
        """The fork of before, which nothing has changed, goes on; then a new one does, and another is kept."""
        state = self.engine.state
        before = structure_of(state)
        if self.side is not None:
            check_same(self.side.structure, structure_of(self.side.state), "the original")
            self.side.go_on(self, how)
        new = Side(self)
        check_same(before, new.structure, "copying")
        check_apart(state, new.state)
        new.go_on(self, how)
        self.side = Side(self)
        check_same(before, structure_of(state), "a fork")

    @rule(policy=st.sampled_from((None, None, *shapes.POLICIES)))
    def restart(self, policy: bytes | None) -> None:
        """A daemon starts on a fork. (A State from a snapshot has the same facts, with zeros left out of sums.)"""
        self.engine = Engine(self.engine.state.fork(), self.engine.head)
        self._start(policy)

    def teardown(self) -> None:
        if self.side is not None:
            check_same(self.side.structure, structure_of(self.side.state), "the original")
        super().teardown()


def test_forks_and_their_originals_go_on_apart() -> None:
    profile = settings(
        max_examples=examples(40),
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Forked, settings=profile)
