"""How long pod groups may wait (Volcano's `sla`): a deadline each, and who has waited longer than that.

    deadline = creation + waiting time of the group or of the owner of its pods, else of the policy

A deadline makes a cycle due. From then on the group is overdue: `sla` lets it in.

And how long a group keeps what is reserved for it while too many of the nodes that could take its pods are
closed to them: it is tried once more then, and if that is still so it goes on waiting without a reservation.
"""

from itertools import takewhile
from typing import Final, Protocol

from msgspec import structs

from projections.group_facts import WAITING_TIME, waiting_time
from projections.pod_groups import WAITING, PodGroup, Refusal
from projections.quota_charging import Books
from projections.wakeup_events import Due

PATIENCE_NS: Final = 300_000_000_000
"""How long that is."""


class Watching(Books, Protocol):
    """The part of the cluster in which deadlines are kept."""

    groups: dict[str, PodGroup]
    due: Due
    position: int

    def settle(self, group: PodGroup) -> None:
        """Bring what follows from a group's pods in line."""


def deadline_of(books: Books, group: PodGroup) -> int | None:
    """When the group has waited as long as it may; None where it may wait for ever."""
    rules = books.policy.sla
    if rules is None:
        return None
    stated = _of_owner(books, group) if group.facts is None else group.facts.waiting_ns
    waiting = rules.waiting_ns if stated is None else stated
    return None if waiting is None else group.created_ns + waiting


def _of_owner(books: Books, group: PodGroup) -> int | None:
    """What the owner says whose pods are a group without an object."""
    said = books.owners.get(group.key.partition("/podgroup-")[2])
    return None if said is None else waiting_time(said.get(WAITING_TIME))[0]


def is_overdue(books: Books, group: PodGroup) -> bool:
    """Whether the group has waited longer than it may."""
    return group.key in books.commons.overdue


def watch(books: Books, group: PodGroup) -> None:
    """Keep the deadline of a group that waits for something."""
    commons = books.commons
    if group.key in commons.patience and not _is_borne_with(group.refusals.get("allocate")):
        del commons.patience[group.key]
    if books.policy.sla is None and not commons.deadlines and not commons.overdue:
        return
    deadline = deadline_of(books, group)
    if commons.overdue.get(group.key, deadline) != deadline:
        del commons.overdue[group.key]
    waits = (group.phase == WAITING or bool(group.pending)) and not group.is_foreign
    if deadline is not None and waits and group.key not in commons.overdue:
        commons.deadlines[group.key] = deadline
    else:
        commons.deadlines.pop(group.key, None)


def _is_borne_with(refusal: Refusal | None) -> bool:
    return refusal is not None and refusal.is_shut and not refusal.is_hopeless


def bear_with(books: Books, group: PodGroup, refusal: Refusal, now_ns: int) -> None:
    """A group was refused: if nodes are closed to it, it keeps what is reserved for it a while longer."""
    if "enqueue" in books.policy.actions and _is_borne_with(refusal) and not refusal.is_tired:
        books.commons.patience.setdefault(group.key, now_ns + PATIENCE_NS)


def forget(books: Books, key: str) -> None:
    """The group is gone."""
    books.commons.patience.pop(key, None)
    books.commons.deadlines.pop(key, None)
    books.commons.overdue.pop(key, None)


def let_pass(cluster: Watching, at_ns: int) -> None:
    """Take in whose deadline is over by now."""
    commons = cluster.commons
    over = [(deadline, key) for key, deadline in commons.deadlines.items() if deadline <= at_ns]
    for deadline, key in sorted(over):
        # In an order that does not depend on the one in which groups came to wait.
        del commons.deadlines[key]
        commons.overdue[key] = deadline
        cluster.settle(cluster.groups[key])
    ended = takewhile(lambda one: one[1] <= at_ns, commons.patience.items())
    for key in [key for key, _ in ended]:
        group = cluster.groups[key]
        group.refusals["allocate"] = structs.replace(group.refusals["allocate"], is_tired=True)
        del commons.patience[key]
        cluster.due.groups[key], group.cause = None, cluster.position
