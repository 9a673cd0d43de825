"""When a daemon saw pods, decided about them, and had them bound, as its log says: the daemon's own times."""

from collections.abc import Collection

from msgspec import Struct

from daemon.log.opening import open_log
from events.cluster import ObjectObserved
from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.duration import SECOND
from events.outcome import PodBound
from tests.storm.judge import entries_of


class PodTimes(Struct):
    """Nanoseconds since 1970; 0 for what is not in the log."""

    seen: int = 0
    decided: int = 0
    bound: int = 0
    took: int = 0
    """How long the API server took to answer the binding, as the daemon saw it."""


async def log_times(url: str, names: Collection[str]) -> str:
    """The median and the longest time between seeing and deciding, and between deciding and binding, of pods by `namespace/name`."""
    log = await open_log(url)
    try:
        entries = await entries_of(log)
    finally:
        await log.close()
    times = {name: PodTimes() for name in names}
    for entry in entries:
        event, at = event_of(entry.record), entry.record.recorded_at_ns
        if isinstance(event, ObjectObserved) and entry.record.subject.startswith("Pod/"):
            found = times.get(entry.record.subject.removeprefix("Pod/"))
            if found is not None:
                found.seen = found.seen or at
        elif isinstance(event, GangBindDecided):
            for one in event.placements:
                found = times.get(one.pod)
                if found is not None:
                    found.decided = at
        elif isinstance(event, PodBound):
            found = times.get(event.pod)
            if found is not None:
                found.bound = at
                found.took = event.latency_ns
    decided = sorted(one.decided - one.seen for one in times.values() if one.decided)
    bound = sorted(one.bound - one.decided for one in times.values() if one.bound)
    took = sorted(one.took for one in times.values() if one.bound)
    never = sum(not one.decided for one in times.values())
    return (
        f"{_figures(decided)} from seen to decided, {_figures(bound)} from decided to bound, "
        f"{_figures(took)} of them for the answer, "
        f"{never} undecided"
    )


def _figures(found: list[int]) -> str:
    if not found:
        return "never"
    return f"{found[len(found) // 2] / SECOND:.2f} (at most {found[-1] / SECOND:.2f}) s"
