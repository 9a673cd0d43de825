"""What the actions of one State share: the State, the rankings of nodes, and the counting of work."""

from projections.cluster import Cluster
from projections.lines import Line
from projections.pod_groups import PodGroup
from projections.state import State
from scheduling.ranking import Rankings
from scheduling.wake import is_awakened


class Session:
    """One State and what is remembered about it from cycle to cycle, only to save time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.cluster: Cluster = state.cluster
        self.rankings = Rankings(state.cluster)
        self.groups_examined = 0
        """How often an action tried a pod group."""

    def lines_to_serve(self, action: str) -> dict[str, list[Line]]:
        """By queue, the lines of an action whose answer could be another than the one that stands."""
        state, cluster = self.state, self.cluster
        due: dict[int, None] = {}
        for key in (*state.considered.groups, *cluster.due.groups):
            group = cluster.groups.get(key)
            for line in cluster.lines.of(group) if group is not None else ():
                due[id(line)] = None
        return {
            name: chosen
            for name, lines in cluster.lines.by_queue.items()
            if (
                chosen := [
                    line
                    for line in lines.values()
                    if line.action == action
                    and (id(line) in due or is_awakened(state, line, state.considered))
                ]
            )
        }

    def is_standing(self, group: PodGroup, action: str, code: str, limit: str) -> bool:
        """Whether the log already says that the group is refused for this."""
        refusal = group.refusals.get(action)
        return refusal is not None and (refusal.code, refusal.limit) == (code, limit)
