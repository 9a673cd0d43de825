"""Work that a cycle did not get to: what is still due, and what was looked at already.

A cycle that has used up its budget of work records where it stopped (`work_deferred`). What it had to look at
stays due for the actions that were cut short, except for the lines that they looked at since. A cycle that
is not cut short leaves nothing behind. A search for pods to evict that was cut short (`search_deferred`) goes on
where it stopped.
"""

from msgspec import Struct, field

from events.decision import SearchDeferred, WorkDeferred
from projections.cluster import Cluster
from projections.wakeup_events import Names, WakeupEvents

BATCHES_MAX = 2
"""Batches of changes that are kept apart; later ones are put together, and looked at from the last on."""


class EventBatch(Struct):
    """Changes that a cycle had to look at, and did not wholly."""

    cycle: int
    """Position of that cycle: what was looked at since then need not be again."""
    events: WakeupEvents
    actions: Names
    """The actions that still have to."""


class DeferredSearch(Struct, frozen=True):
    """A search that goes on."""

    cycle: int
    """Position of the cycle that cut it short."""
    so_far: SearchDeferred


class DeferredWork(Struct):
    """What earlier cycles left."""

    batches: list[EventBatch] = field(default_factory=list)
    looked: dict[str, dict[str, int]] = field(default_factory=dict)
    """Action to pod group to the position of the cycle that last looked at the line that the group led."""

    def looked_at(self, action: str, group: str) -> int:
        """The cycle in which an action last looked at a group; 0 where it did not since it was cut short."""
        return self.looked.get(action, {}).get(group, 0)

    searches: dict[str, dict[str, DeferredSearch]] = field(default_factory=dict)
    """Action to pod group to the search for it that goes on."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return not self.batches and not self.searches

    def search_of(self, action: str, group: str) -> DeferredSearch | None:
        """The search of an action for a group that goes on, if one does."""
        return self.searches.get(action, {}).get(group)

    def with_search(self, event: SearchDeferred, cycle: int) -> "DeferredWork":
        """What is left when a search was cut short, too."""
        of_action = {
            **self.searches.get(event.action, {}),
            event.pod_group: DeferredSearch(cycle, event),
        }
        return DeferredWork(self.batches, self.looked, {**self.searches, event.action: of_action})

    def with_left(
        self,
        carried: "DeferredWork",
        event: WorkDeferred,
        cycle: int,
        due: WakeupEvents,
        cluster: Cluster,
    ) -> "DeferredWork":
        """What is left once a cycle, which began with `carried` and with `due`, was cut short."""
        cut = dict.fromkeys(one.action for one in event.actions)
        batches = list(carried.batches)
        if not due.is_empty or not batches:
            batches.append(EventBatch(cycle, due, cut))
        left = [
            EventBatch(one.cycle, one.events, {name: None for name in one.actions if name in cut})
            for one in batches
        ]
        left = [one for one in left if one.actions]
        while len(left) > BATCHES_MAX:
            last, before = left.pop(), left.pop()
            actions = {**before.actions, **last.actions}
            left.append(EventBatch(last.cycle, _together(before.events, last.events), actions))
        looked: dict[str, dict[str, int]] = {}
        searches = dict(self.searches)
        for one in event.actions:
            kept = carried.looked.get(one.action, {})
            looked[one.action] = {key: at for key, at in kept.items() if key in cluster.groups}
            looked[one.action].update(dict.fromkeys(one.looked, cycle))
            waiting = {
                key: search
                for key, search in carried.searches.get(one.action, {}).items()
                if key not in one.looked and _waits(cluster, one.action, key)
            }
            if waiting:
                searches[one.action] = {**waiting, **searches.get(one.action, {})}
        return DeferredWork(left, looked, searches)


def _waits(cluster: Cluster, action: str, key: str) -> bool:
    """Whether a group still waits for an action."""
    group = cluster.groups.get(key)
    return group is not None and any(
        equivalence_group.action == action
        for equivalence_group in cluster.scheduling_queue.of(group)
    )


def _together(first: WakeupEvents, second: WakeupEvents) -> WakeupEvents:
    """What happened in both."""
    eased = {name: dict(resources) for name, resources in first.quota_released.items()}
    for name, resources in second.quota_released.items():
        eased.setdefault(name, {}).update(resources)
    arrived = dict(first.victims_added)
    for name, priority in second.victims_added.items():
        arrived[name] = min(priority, arrived.get(name, priority))
    return WakeupEvents(
        groups={**first.groups, **second.groups},
        nodes_freed={**first.nodes_freed, **second.nodes_freed},
        nodes_updated={**first.nodes_updated, **second.nodes_updated},
        nodes_freed_at=max(first.nodes_freed_at, second.nodes_freed_at),
        quota_released=eased,
        quota_released_at={**first.quota_released_at, **second.quota_released_at},
        victims_added=arrived,
        met={**first.met, **second.met},
        hyper_nodes_changed_at=max(first.hyper_nodes_changed_at, second.hyper_nodes_changed_at),
        everything=first.everything or second.everything,
    )
