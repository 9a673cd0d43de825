"""A digest of what a pod group needs when it searches for victims: equal as long as a search can continue."""

import hashlib
from typing import Final

import msgspec

from projections.pod_groups import PodGroup
from projections.state import State

DIGITS: Final = 16
"""Number of hexadecimal digits that are kept."""


def wanted(state: State, group: PodGroup) -> str:
    """Return a digest of the policy, of the group's order and needs, and of its pending pods with what they request.

    State that was folded from a base numbers the classes of pods otherwise, so they are named by their content.
    """
    content_of = state.cluster.inter_pod_affinity.classes.content_of
    classes = {pod.pod_class.index: pod.pod_class for pod in group.pending}
    places = {index: place for place, index in enumerate(classes)}
    parts = (
        state.policy_position,
        group.queue,
        group.priority,
        group.min_available,
        sorted(group.min_tasks.items()),
        (group.counts.ready, group.counts.allocated, len(group.pods)),
        [content_of(one) for one in classes.values()],
        [
            (pod.facts.uid, places[pod.pod_class.index], pod.facts.task_priority)
            for pod in group.pending
        ],
        sorted((uid, nomination.node) for uid, nomination in group.nominations.items()),
    )
    return hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()[:DIGITS]
