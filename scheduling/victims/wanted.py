"""What a pod group asks for when it looks for pods to evict, as a digest: equal as long as a search can go on."""

import hashlib
from typing import Final

import msgspec

from projections.pod_groups import PodGroup

DIGITS: Final = 16
"""Hexadecimal digits that are kept of it."""


def wanted(policy_position: int, group: PodGroup) -> str:
    """A digest of the policy, of the group's place and needs, and of its waiting pods."""
    parts = (
        policy_position,
        group.queue,
        group.priority,
        group.min_available,
        sorted(group.min_tasks.items()),
        (group.ready_count, group.allocated_count, len(group.pods)),
        [(pod.facts.uid, pod.pod_class.index, pod.facts.task_priority) for pod in group.pending],
        sorted((uid, held.node) for uid, held in group.nominations.items()),
    )
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:DIGITS]
