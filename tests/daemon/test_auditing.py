"""Audits keep to their share of the time, and are part of what runs and of what is measured."""

import ast

import pytest

from daemon.auditing import CREDIT_MAX_NS, SHARE, SLICE_NS, Audits
from daemon.composition import audits_of, build_engine
from events.record import GENESIS
from features.table import FEATURES
from projections.audit import RollingAudit
from projections.state import State
from tests.checkout import ROOT, short, tracked
from tests.scheduling.builders import EngineHarness, node, pod

MILLISECOND = 1_000_000


class Slow(RollingAudit):
    """Audits without end, of which each takes a while by a clock of its own."""

    is_round_over = False

    def __init__(self, takes_ns: int) -> None:
        super().__init__(State(FEATURES))
        self.now_ns = 0
        self.takes_ns = takes_ns

    def next(self) -> None:
        self.now_ns += self.takes_ns


@pytest.mark.parametrize("takes_ns", [1_000, MILLISECOND, 30 * MILLISECOND])
@pytest.mark.parametrize("turn_ns", [MILLISECOND, 100 * MILLISECOND, 20_000 * MILLISECOND])
def test_audits_take_a_hundredth_of_the_time(takes_ns: int, turn_ns: int) -> None:
    slow = Slow(takes_ns)
    audits = Audits(slow, lambda: slow.now_ns)
    longest = 0
    for _ in range(max(10, min(2_000, takes_ns // 100))):
        slow.now_ns += turn_ns
        before = audits.spent_ns
        audits.turn()
        longest = max(longest, audits.spent_ns - before)
    assert audits.count > 0
    assert audits.spent_ns <= slow.now_ns // SHARE + takes_ns
    assert longest <= min(SLICE_NS, CREDIT_MAX_NS) + takes_ns


def test_a_turn_counts_each_thing_once() -> None:
    """Also where the clock stands still, and where there is time for more."""
    harness = EngineHarness()
    for name in ("n1", "n2"):
        harness.show_all("Node", node(name))
    harness.show_all("Pod", pod("p"))
    harness.show_the_rest()
    harness.cycle()
    now_ns = 0
    audits = audits_of(harness.engine, lambda: now_ns)
    counts: list[int] = []
    for _ in range(3):
        now_ns += 1_000 * MILLISECOND
        before = audits.count
        audits.turn()
        counts.append(audits.count - before)
    cluster = harness.state.cluster
    things = len(cluster.pods) + len(cluster.queues) + len(cluster.groups)
    things += len(cluster.indexes.all)
    assert counts[1:] == [things + len(cluster.nodes.nodes)] * 2


def test_a_difference_ends_it_with_the_place_in_the_log() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("p"))
    harness.show_the_rest()
    harness.cycle()
    now_ns = 0

    def elapsed_ns() -> int:
        nonlocal now_ns
        now_ns += MILLISECOND
        return now_ns

    audits = audits_of(harness.engine, elapsed_ns)

    def many_turns() -> None:
        nonlocal now_ns
        for _ in range(100):
            now_ns += 1_000 * MILLISECOND
            audits.turn()

    harness.state.cluster.nodes.nodes["n1"].occupied["cpu"] += 1
    with pytest.raises(AssertionError, match=r"does not add up at position \d+: node n1 occupied"):
        many_turns()


def test_the_composition_of_a_daemon_is_made_in_one_place() -> None:
    """Benchmarks and daemons make no step and no audits themselves, so they cannot differ in how."""
    made = ("Engine", "Audits", "RollingAudit", "Decider")
    folders = ("benchmarks", "daemon")
    files = [path for path in tracked(".py") if short(path).split("/")[0] in folders]
    found = {
        (short(path), call.func.id)
        for path in files
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in made
    }
    place = "daemon/composition.py"
    assert found == {(place, "Engine"), (place, "Audits")}
    driving = (ROOT / "benchmarks/driving.py").read_text(encoding="utf-8")
    assert "build_engine(" in driving
    assert "audits_of(" in driving


def test_a_core_audits_what_its_batches_touch() -> None:
    engine = build_engine(State(FEATURES), GENESIS, views=None)
    assert isinstance(engine.audit, RollingAudit)
