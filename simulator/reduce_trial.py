"""One trial of a reduction: hold one cycle over some objects, as `muster simulate` does for a scenario with `cycles: 1`."""

from collections.abc import Sequence

from engine.engine import Engine
from events.codec import event_of
from events.daemon import PolicyChanged
from events.decision import Decision
from events.duration import SECOND
from events.errors import MusterError
from events.record import Head
from projections.state import State
from simulator.fit import state_at_start
from simulator.manifest import LocatedManifest
from simulator.reduce_target import CycleOutcome, Target, shows
from simulator.scenario import Scenario


def decisions_of_cycle(state: State, at_ns: int) -> tuple[Decision, ...]:
    """Hold a cycle at a moment, and return what it decides. The State is as it is after the cycle then."""
    engine = Engine(state, Head(position=state.position, digest="0" * 64, epoch=1))
    batch = engine.cycle(at_ns)
    events = () if batch is None else map(event_of, batch.records)
    return tuple(one for one in events if isinstance(one, Decision))


class ReductionTrial:
    """Holds a cycle over sets of objects, under one policy."""

    def __init__(self, policy: PolicyChanged, scheduler_names: tuple[str, ...]) -> None:
        self._policy = policy
        self._scheduler_names = scheduler_names
        self.count = 0
        """The number of cycles held."""

    def outcome(self, objects: Sequence[LocatedManifest]) -> CycleOutcome:
        """Return what the first cycle decides. If the objects are no valid scenario, or if it raises an exception (a bug),
        the outcome has no State."""
        self.count += 1
        scenario = Scenario(name="reduce", period_ns=SECOND, cycles=1, cluster=tuple(objects))
        try:
            state = state_at_start(scenario, self._policy, self._scheduler_names)
            decided = decisions_of_cycle(state, 0)
        except MusterError:
            return CycleOutcome(None)
        except Exception:  # any bug: other sets of objects may not raise
            return CycleOutcome(None, is_bug=True)
        return CycleOutcome(state, decided)

    def shows(self, target: Target, objects: Sequence[LocatedManifest]) -> bool:
        """Return True if a cycle over these objects shows the target and leaves a recorded binding possible."""
        if not shows(target, self.outcome(objects)):
            return False
        return not target.recorded_nodes or self.makes_recorded(target, objects)

    def makes_recorded(self, target: Target, objects: Sequence[LocatedManifest]) -> bool:
        """Return True if the recorded binding is made where there are no other nodes than those of the record."""
        nodes = target.recorded_nodes
        left = [one for one in objects if one.kind.kind != "Node" or one.name in nodes]
        outcome = self.outcome(left)
        made = Target(made=target.not_made)
        return shows(made, outcome)
