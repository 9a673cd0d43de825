"""A group that lost its reservation names the group for which it waits as long as that holds anything."""

from msgspec import structs

from projections.state import State
from scheduling.unschedulable import Unschedulable
from scheduling.yielded_reservation import waits_for_other
from tests.scenarios.play import HERE, play, scenario_of

FILE = HERE / "reservations" / "a_reservation_yields_to_a_higher_priority.yaml"
LOST = "default/podgroup-uid-000006"
REASON = Unschedulable("InsufficientCPUQuota", "cpu", "there is no quota")


def named(state: State) -> str:
    """The code of the refusal."""
    return waits_for_other(state.cluster, state.cluster.groups[LOST], REASON).code


async def test_amounts_that_have_become_zero_are_nothing() -> None:
    """A snapshot keeps no zeros: a scheduler that is started from one must refuse alike."""
    state = (await play(scenario_of(FILE))).end.state
    assert named(state) == "ReservationYielded"
    other = state.cluster.groups[state.cluster.groups[LOST].decided.refusals["enqueue"].limit]
    other.reservation = structs.replace(other.reservation, inqueue=())
    for ledger in (other.allocated, other.held):
        ledger.update(dict.fromkeys(ledger, 0))
        assert ledger
    assert named(state) == REASON.code
