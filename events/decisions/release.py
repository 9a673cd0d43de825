"""The request to the pods of a task to release their resources: preemption by the pool deciders."""

from typing import Final

from events.decisions.eviction import EvictionDecided

RELEASE: Final = "release"
"""`action` of these decisions."""


class ReleaseDecided(EvictionDecided, frozen=True, kw_only=True):
    """Running pods of one task are asked to write a checkpoint and to exit. Their resources are free only when they have
    ended; they are evicted at the deadline."""

    kind = "release_decided.v1"
    word = "release"

    deadline_ns: int
    """Time at which pods that have not ended are evicted, in ns since the epoch."""

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the pods are under the first one."""
        why = f" for {self.in_favour_of}" if self.in_favour_of else ""
        because = f": {self.message}" if self.message else ""
        count = len(self.evictions)
        first = f"ask {count} pod{'s' * (count != 1)} of {self.pod_group} to release{why}{because}"
        return [first, *(f"{one.pod} on {one.node}" for one in self.evictions)]
