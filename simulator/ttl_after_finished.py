"""The TTL controller: it deletes finished workloads after `ttlSecondsAfterFinished`."""

from events.duration import SECOND
from simulator.manifest import Manifest
from simulator.manifest_fields import section, uid_of, whole_at
from simulator.object_factory import ObjectFactory
from simulator.owned_objects import OwnedObjects


def expire(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Delete a finished workload whose `ttlSecondsAfterFinished` have passed, if it has any."""
    now = factory.store.now_ns
    if children.finished_ns is None:
        children.finished_ns = now
    seconds = whole_at(section(owner, "spec"), "ttlSecondsAfterFinished", -1)
    if seconds < 0:
        return
    due = children.finished_ns + seconds * SECOND
    if due <= now:
        factory.delete_owner(owner)
    else:
        factory.wake(uid_of(owner), due)
