"""No pod group that waits for an event fits: a cluster at rest, looked at as if all were new, decides nothing more.

Left out are gangs of unequal pods. One that did not fit because its first pods took what its last ones needed
may fit in part once there is less room for the first: it is looked at when room comes free, not when it goes.
And so is a group for which others would have to be evicted.
"""

from engine.engine import Engine
from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from features.table import FEATURES
from projections.pod_groups import PodGroup
from projections.snapshot import restore, take


def overlooked(engine: Engine, now_ns: int) -> list[str]:
    """What would be decided now if every group were looked at."""
    groups = engine.state.cluster.groups
    again = Engine(restore(take(engine.state), FEATURES), engine.head)
    again.state.cluster.wakeup_events.everything = True
    batch = again.cycle(now_ns)
    found: list[str] = []
    helped: dict[str, None] = {}
    for record in () if batch is None else batch.records:
        event, key = event_of(record), record.subject.partition("/")[2]
        if isinstance(event, EvictionDecided):
            helped[event.in_favour_of] = None
            continue
        if isinstance(event, PodGroupUnschedulable) or key in helped or key not in groups:
            continue
        if _is_uneven(groups[key]):
            continue
        found.append(f"{record.kind} {record.subject} {record.body.decode()}")
    return found


def _is_uneven(group: PodGroup) -> bool:
    return len(group.pending_classes) > 1 and not group.is_ready_with(1, {})
