"""Keep the work that a cycle did not finish.

A cycle that has used its work budget records where it stopped (`work_deferred`). Its events stay due for the
actions that were cut short, except for groups that these actions have evaluated since. A search for victims that
was cut short (`search_deferred`) resumes where it stopped.
"""

from msgspec import Struct, field

from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import WorkDeferred
from projections.cluster import Cluster
from projections.wakeup_events import Names, WakeupEvents

BATCHES_MAX = 2
"""Number of event batches that are kept apart; later ones are merged and count from the last cycle."""


class EventBatch(Struct):
    """Events that a cycle did not evaluate completely."""

    cycle: int
    """Position of the cycle: groups evaluated since then need not be evaluated again."""
    events: WakeupEvents
    actions: Names
    """The actions that still have to evaluate them."""


class DeferredSearch(Struct, frozen=True):
    """A search that resumes."""

    cycle: int
    """Position of the cycle that cut the search short."""
    so_far: SearchDeferred


class DeferredWork(Struct):
    """Work left by earlier cycles."""

    batches: list[EventBatch] = field(default_factory=list)
    evaluated: dict[str, dict[str, int]] = field(default_factory=dict)
    """Action to pod group to the position of the cycle that last evaluated it as the head of its equivalence group."""

    def evaluated_at(self, action: str, group: str) -> int:
        """Return the cycle in which an action last evaluated a group; 0 if not since the action was cut short."""
        return self.evaluated.get(action, {}).get(group, 0)

    searches: dict[str, dict[str, DeferredSearch]] = field(default_factory=dict)
    """Action to pod group to the search that resumes."""

    @property
    def is_empty(self) -> bool:
        """Return whether no work is left."""
        return not self.batches and not self.searches

    def search_of(self, action: str, group: str) -> DeferredSearch | None:
        """Return the deferred search of an action for a group, if there is one."""
        return self.searches.get(action, {}).get(group)

    def with_search(self, event: SearchDeferred, cycle: int) -> "DeferredWork":
        """Return the deferred work with one more search."""
        of_action = {
            **self.searches.get(event.action, {}),
            event.pod_group: DeferredSearch(cycle, event),
        }
        return DeferredWork(
            self.batches, self.evaluated, {**self.searches, event.action: of_action}
        )

    def with_left(
        self,
        carried: "DeferredWork",
        event: WorkDeferred,
        cycle: int,
        due: WakeupEvents,
        cluster: Cluster,
    ) -> "DeferredWork":
        """Return the work that is left after a cycle, begun with `carried` and `due`, was cut short."""
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
            left.append(EventBatch(last.cycle, _merge(before.events, last.events), actions))
        looked: dict[str, dict[str, int]] = {}
        searches = dict(self.searches)
        for one in event.actions:
            kept = carried.evaluated.get(one.action, {})
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
    """Return whether a group still waits for an action."""
    group = cluster.groups.get(key)
    return group is not None and any(
        equivalence_group.action == action
        for equivalence_group in cluster.scheduling_queue.of(group)
    )


def _merge(first: WakeupEvents, second: WakeupEvents) -> WakeupEvents:
    """Merge the events of two batches."""
    quota_released = {name: dict(resources) for name, resources in first.quota_released.items()}
    for name, resources in second.quota_released.items():
        quota_released.setdefault(name, {}).update(resources)
    victims_added = dict(first.victims_added)
    for name, priority in second.victims_added.items():
        victims_added[name] = min(priority, victims_added.get(name, priority))
    return WakeupEvents(
        groups={**first.groups, **second.groups},
        nodes_freed={**first.nodes_freed, **second.nodes_freed},
        nodes_updated={**first.nodes_updated, **second.nodes_updated},
        nodes_freed_at=max(first.nodes_freed_at, second.nodes_freed_at),
        quota_released=quota_released,
        quota_released_at={**first.quota_released_at, **second.quota_released_at},
        victims_added=victims_added,
        changed_pod_kinds={**first.changed_pod_kinds, **second.changed_pod_kinds},
        volumes_changed={**first.volumes_changed, **second.volumes_changed},
        hyper_nodes_changed_at=max(first.hyper_nodes_changed_at, second.hyper_nodes_changed_at),
        everything=first.everything or second.everything,
    )
