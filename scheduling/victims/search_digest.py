"""A digest of what a pod group needs when it searches for victims: equal as long as a search can continue."""

import hashlib
from typing import Final

import msgspec

from projections.pod_groups import PodGroup

DIGITS: Final = 16
"""Number of hexadecimal digits that are kept."""


def wanted(policy_position: int, group: PodGroup) -> str:
    """Return a digest of the policy, of the group's order and needs, and of its pending pods."""
    parts = (
        policy_position,
        group.queue,
        group.priority,
        group.min_available,
        sorted(group.min_tasks.items()),
        (group.counts.ready, group.counts.allocated, len(group.pods)),
        [(pod.facts.uid, pod.pod_class.index, pod.facts.task_priority) for pod in group.pending],
        sorted((uid, nomination.node) for uid, nomination in group.nominations.items()),
    )
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:DIGITS]
