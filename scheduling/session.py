"""What the actions of one State share: the State, the rankings of nodes, and the counting of work."""

from projections.cluster import Cluster
from projections.lines import Line
from projections.state import State
from scheduling.fruitless import Fruitless
from scheduling.quota.reclaiming import Givers
from scheduling.quota.relief import Relief
from scheduling.ranking import Rankings
from scheduling.reach import Reach
from scheduling.topology.network import Network
from scheduling.wake import is_awakened


class Session:
    """One State and what is remembered about it from cycle to cycle, only to save time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.cluster: Cluster = state.cluster
        self.rankings = Rankings(state.cluster)
        self.reach = Reach(state.cluster)
        self.relief = Relief(state)
        self.fruitless = Fruitless(state.cluster)
        self.network = Network(self.rankings)
        self.givers = Givers(state.cluster)
        self.groups_examined = 0
        """How often an action tried a pod group."""
        self._due: dict[int, None] = {}
        """Lines (by identity) with a group that changed."""

    def lines_to_serve(self, action: str) -> dict[str, list[Line]]:
        """By queue, the lines of an action whose answer could be another than the one that stands."""
        state, cluster = self.state, self.cluster
        self._due = {}
        for key in (*state.considered.groups, *cluster.due.groups):
            group = cluster.groups.get(key)
            for line in cluster.lines.of(group) if group is not None else ():
                self._due[id(line)] = None
        found: dict[str, list[Line]] = {}
        for name, lines in cluster.lines.by_queue.items():
            chosen = [
                line for line in lines.values() if line.action == action and self.could_change(line)
            ]
            if chosen:
                found[name] = chosen
        return found

    def could_change(self, line: Line) -> bool:
        """Whether, as things are now, the line could get another answer than the one that stands."""
        return id(line) in self._due or is_awakened(
            self.state, line, self.state.considered, self.givers
        )

    def mark_due(self, line: Line) -> None:
        """A group in the line has just changed."""
        self._due[id(line)] = None
