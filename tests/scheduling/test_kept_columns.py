"""Kept columns equal those that are read anew, whatever has changed since they were read."""

from hypothesis import given
from hypothesis import strategies as st

from events.messages import ObjectSeen
from projections.device_family import NO_JOB
from scheduling.kept_columns import KeptColumns
from scheduling.node_ranking import NodeRankings
from scheduling.trial import Trial
from tests.scheduling.builders import EngineHarness, node, pod

NODES = 24
REQUEST = (("cpu", 2), ("memory", 4096), ("pods", 1))

moved = st.lists(st.tuples(st.integers(0, NODES - 1), st.booleans()), max_size=12)


def contents(columns: KeptColumns) -> object:
    """All that is read of them."""
    columns.refresh()
    room = columns.with_room(REQUEST)
    parts = [columns.slots, columns.points, *(columns.amounts("cpu") or ())]
    parts += [columns.shares("cpu", 0), columns.shares("cpu", 2), columns.shares("memory", 4096)]
    return [one.tolist() for one in parts], None if room is None else room.tolist()


@given(st.lists(moved, max_size=5), st.integers(0, NODES - 1))
def test_kept_columns_equal_those_that_are_read_anew(
    batches: list[list[tuple[int, bool]]], changed: int
) -> None:
    harness = EngineHarness()
    harness.show_all("Node", *[node(f"n{at:02}", cpu=at % 5) for at in range(NODES)])
    harness.show_all("Pod", pod("waits"))
    harness.show_the_rest()
    cluster = harness.state.cluster
    rankings, table = NodeRankings(cluster), cluster.nodes
    (waiting,) = cluster.pods.values()

    def made() -> KeptColumns:
        devices = rankings.devices(waiting.pod_class, None, NO_JOB)
        return KeptColumns(table, rankings.predicates(waiting.pod_class), devices)

    with Trial(cluster):
        kept = made()
        assert contents(kept) == contents(made())
    for batch in batches:
        with Trial(cluster) as trial:
            for at, is_more in batch:
                trial.lift_reservation(f"n{at:02}", (("cpu", -1 if is_more else 1),))
            assert contents(kept) == contents(made())
        assert contents(kept) == contents(made())
    harness.see(ObjectSeen(node(f"n{changed:02}", cpu=9)))
    with Trial(cluster):
        assert contents(kept) == contents(made())
