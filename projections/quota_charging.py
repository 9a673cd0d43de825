"""Compute what pods and pod groups are charged to their queue: by which names follows from the quota plugin (`charging.py`)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from projections.blocked import is_blocked
from projections.cards import REQUEST_ANNOTATION
from projections.charging import PLAIN, CardModels
from projections.deltas import NodeChanged
from projections.group_rows import NO_RESERVATION, GroupReservation
from projections.index import Index
from projections.kept_quota import kept_charge
from projections.nodes import NodeFacts
from projections.pod_class import Amounts, PodClass
from projections.pod_groups import COMPLETED, INQUEUE, RUNS, PodGroup
from projections.pods import GATED, Charge, Pod
from projections.queues import add

if TYPE_CHECKING:
    from projections.cluster import Cluster


ALIKE_MAX: Final = 10_000
"""Entries of a cache of what groups of one class ask for."""


class Cards(Index, CardModels):
    """The known card models, and what pod groups ask for of them."""

    name = "cards"
    COMPARED: ClassVar[tuple[str, ...]] = ("resource", "by_resource", "units")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """Grows whenever the set of known cards may have changed."""
        self.asked: dict[tuple[object, ...], Charge | None] = {}
        """Cache: what groups of one class ask for when they ask to be admitted (`admission_charge`)."""

    def on_node(self, cluster: "Cluster", delta: NodeChanged) -> None:
        """Count the cards of a node."""
        version = self.version
        for facts, sign in ((delta.old, -1), (delta.new, 1)):
            if facts is not None:
                self.shift_node(facts, sign)
        if self.version != version:
            self.forget()

    def forget(self) -> None:
        """Clear the cache: cards or the rules by which they are charged have changed, or there are many entries."""
        self.asked.clear()

    def shift_node(self, facts: NodeFacts, sign: int) -> None:
        """Add or remove what is charged for the resources of a node."""
        for resource, card in facts.cards.items():
            self.version += self.shift(card, resource, sign)
        for resource, (card, units) in facts.converted.items():
            of_resource = self.units.setdefault(resource, {})
            nodes = of_resource.setdefault(card, {})
            nodes[units] = nodes.get(units, 0) + sign
            if not nodes[units]:
                del nodes[units]
            self.version += 1 if nodes.get(units, 0) in (0, sign) else 0
            if not nodes:
                del of_resource[card]
            if not of_resource:
                del self.units[resource]
            self.version += self.shift(card, resource, sign)

    def shift(self, name: str, resource: str, sign: int) -> bool:
        """Add or remove a node; return whether that changed the set of known cards."""
        nodes = self.by_resource.setdefault(resource, {})
        left = nodes.get(name, 0) + sign
        if left:
            nodes[name] = left
        else:
            del nodes[name]
            if not nodes:
                del self.by_resource[resource]
        if left > 1 or (left and sign < 0):
            return False
        # If several resources count one card, the first by name counts, independent of the order of events.
        # A converted resource has the card of another one.
        counted = [
            one
            for one in sorted(self.by_resource)
            if name in self.by_resource[one] and one not in self.units
        ]
        if counted:
            self.resource[name] = counted[0]
        else:
            self.resource.pop(name, None)
        return True

    def rebuilt(self, cluster: "Cluster", /) -> "Cards":
        """Count the cards of all present nodes again."""
        twin = Cards()
        for node in cluster.nodes.nodes.values():
            if node.facts is not None:
                twin.shift_node(node.facts, 1)
        return twin


class ClassCharges:
    """What pods of one class are charged: computed once for each card layout, as long as the known cards and the rules of
    the policy stay."""

    __slots__ = ("by_layout", "least")

    def __init__(self) -> None:
        self.by_layout: dict[str, Charge] = {}
        """Card layout of a node to the charge of such a pod there; "" to that of a waiting pod."""
        self.least: dict[tuple[int, bool], Amounts] = {}
        """Number of pods, and whether only cards count, to what they request together."""


def requested(cluster: "Cluster", pod_class: PodClass) -> Charge:
    """Return the charge that a waiting pod of this class would have; a choice of cards has a compound name."""
    return _charge(cluster, pod_class, "")


def charge(cluster: "Cluster", pod: Pod) -> Charge:
    """Return the charge of a pod on its node."""
    return _charge(cluster, pod.pod_class, pod.node)


def resized_charge(cluster: "Cluster", pod: Pod) -> Charge | None:
    """Return the charge of a pod whose request changed on its node; None if it has none."""
    if pod.charge is None:
        return None
    return cluster.plugins.quota.charging.resized(pod.charge, charge(cluster, pod))


def is_unresolved(cluster: "Cluster", pod: Pod) -> bool:
    """Return whether a pod is charged for a choice of cards because its node was unknown."""
    is_choice = cluster.plugins.quota.charging.is_choice
    return any(is_choice(cluster.cards, name) for name, _ in pod.charge or ())


def charge_on(cluster: "Cluster", pod_class: PodClass, node: str) -> Charge:
    """Return the charge of a pod of this class on a node."""
    return _charge(cluster, pod_class, node)


def _charge(cluster: "Cluster", pod_class: PodClass, node: str) -> Charge:
    """Return the charge from the cache; it depends on the class and on the card layout of the node."""
    found = cluster.nodes.nodes.get(node) if node else None
    layout = "" if found is None else found.card_layout
    of_class = cluster.charges.get(pod_class.index)
    if of_class is None:
        of_class = cluster.charges[pod_class.index] = ClassCharges()
    known = of_class.by_layout.get(layout)
    if known is None:
        there = {} if found is None or found.facts is None else found.facts.charged_cards
        known = of_class.by_layout[layout] = cluster.plugins.quota.charging.charge(
            cluster.cards, pod_class.request, pod_class.cards, there
        )
    return known


def cards_of_charge(cluster: "Cluster", name: str) -> tuple[str, ...]:
    """Return the cards that a charge name stands for; a name that is no choice stands for itself."""
    return cluster.plugins.quota.charging.cards_of(cluster.cards, name)


def min_request(cluster: "Cluster", group: PodGroup) -> Amounts | None:
    """Return the minimum request of the gang, by charge name; None if it is not stated and not checked."""
    if group.observed.facts is None:
        return _least(cluster, group, cards_only=False)
    if group.observed.facts.min_resources is None:
        return None
    stated = {
        name: amount for name, amount in group.observed.facts.min_resources.items() if amount > 0
    }

    def cards() -> Amounts:
        assert group.observed.facts is not None
        if group.live_classes:
            return _least(cluster, group, cards_only=True)
        return group.observed.facts.card_request

    return cluster.plugins.quota.charging.minimum(stated, cards)


def _least(cluster: "Cluster", group: PodGroup, *, cards_only: bool) -> Amounts:
    """Return the sum of requests of the first `min_available` live pods, in task order."""
    if len(group.live_classes) != 1:
        return _sum_of(cluster, min_member_classes(group), cards_only=cards_only)
    [(index, live)] = group.live_classes.items()
    of_class = cluster.charges.get(index)
    if of_class is None:
        of_class = cluster.charges[index] = ClassCharges()
    key = min(live, group.observed.min_available), cards_only
    known = of_class.least.get(key)
    if known is None:
        counted = [(group.classes[index], key[0])]
        known = of_class.least[key] = _sum_of(cluster, counted, cards_only=cards_only)
    return known.copy()


def _sum_of(
    cluster: "Cluster", classes: list[tuple[PodClass, int]], *, cards_only: bool
) -> Amounts:
    """Return the sum of the requests of so many pods of each class."""
    total: Amounts = {}
    is_denied = cluster.plugins.quota.charging.is_denied
    for pod_class, count in classes:
        for name, amount in requested(cluster, pod_class):
            if name in PLAIN:
                if cards_only:
                    continue
            elif is_denied(cluster.cards, pod_class.cards, name):
                continue  # A reservation for such a pod would block others for ever.
            total[name] = total.get(name, 0) + amount * count
    return total


def min_member_classes(group: PodGroup) -> list[tuple[PodClass, int]]:
    """Return the classes of the first `min_available` live pods, each with the number of these pods.

    If roles have minimums of their own, the first pods of each role come first.
    """
    wanted = group.observed.min_available
    if len(group.live_classes) == 1:
        [(index, count)] = group.live_classes.items()
        return [(group.classes[index], min(count, wanted))]
    counted = [(group.classes[index], count) for index, count in sorted(group.live_classes.items())]
    if sum(group.live_classes.values()) <= wanted:
        return counted
    if len({(one.request, one.cards) for one, _ in counted}) == 1:
        return [(counted[0][0], wanted)]
    return [(group.classes[index], count) for index, count in group.min_member_set.classes()]


def request_differs(cluster: "Cluster", group: PodGroup) -> str:
    """Return how the cards requested by the pods differ from the annotation of the group; "" if they do not."""
    stated = {} if group.observed.facts is None else group.observed.facts.card_request
    if not stated:
        return ""
    asked = (requested(cluster, pod.pod_class) for pod in group.pods.values())
    differs = cluster.plugins.quota.charging.request_differs(cluster.cards, stated, asked)
    return differs and f"{REQUEST_ANNOTATION} {differs}: the pods count"


def reservation(cluster: "Cluster", group: PodGroup) -> GroupReservation:
    """Return what the group adds to `inqueue` and `elastic` of its queue."""
    if group.is_foreign or (
        group.decided.phase not in (INQUEUE, RUNS, COMPLETED) and not group.allocated
    ):
        return NO_RESERVATION
    least = min_request(cluster, group)
    if least is None:
        return GroupReservation(elastic=tuple(group.allocated.items()))
    missing, used = _missing(cluster, group, least)
    reserves = bool(missing) and not is_blocked(cluster, group)
    if group.decided.phase == INQUEUE:
        reserves = reserves and not group.never_fits
    else:
        is_running = (
            group.decided.phase == RUNS and group.counts.allocated >= group.observed.min_available
        )
        reserves = reserves and is_running
    if reserves and group.counts.gated:
        missing = cluster.plugins.quota.charging.without_gated(
            missing, lambda: _asked_by_gated(cluster, group)
        )
    elastic = tuple([one for one in used.items() if one[1] > 0])
    return GroupReservation(missing if reserves else (), elastic)


def _alike(cluster: "Cluster", group: PodGroup) -> tuple[object, ...] | None:
    """Return a key that is equal for groups of which the minimum is the same, as all their pods are of one class; None for
    other groups, and for those for which anything is nominated or kept."""
    if (
        group.observed.facts is not None
        or group.decided.nominations
        or len(group.live_classes) != 1
    ):
        return None
    if cluster.policy.reschedules and cluster.reschedulings.restarts:
        return None
    [(index, count)] = group.live_classes.items()
    return index, min(count, group.observed.min_available)


def admission_key(cluster: "Cluster", group: PodGroup) -> tuple[object, ...]:
    """Return a key that is equal for groups that ask for the same when they ask to be admitted."""
    asked = admission_charge(cluster, group)
    return ("free",) if asked is None else ("least", asked)


def admission_charge(cluster: "Cluster", group: PodGroup) -> Charge | None:
    """Return `admission_request`, in the order of names, from the cache."""
    alike = None if group.allocated else _alike(cluster, group)
    asked = cluster.cards.asked
    if alike is not None and alike in asked:
        return asked[alike]
    request = admission_request(cluster, group)
    found = None if request is None else tuple(sorted(request.items()))
    if alike is not None:
        if len(asked) >= ALIKE_MAX:
            cluster.cards.forget()
        asked[alike] = found
    return found


def admission_request(cluster: "Cluster", group: PodGroup) -> Amounts | None:
    """Return what a group asks its queue for when it asks to be admitted, by charge name: its minimum less what the
    queue is charged for its pods already; None if the minimum is not stated and not checked."""
    least = min_request(cluster, group)
    if least is None or not (any(group.allocated.values()) or group.decided.nominations):
        return least
    return dict(_missing(cluster, group, least)[0])


def _missing(cluster: "Cluster", group: PodGroup, least: Amounts) -> tuple[Charge, Amounts]:
    """Return what is neither allocated to the group nor nominated for it of its minimum, and what is allocated to it
    above its minimum."""
    used = dict(group.allocated)
    missing = _less(cluster, least.items(), used)
    if missing and any(used.values()):
        missing = _with_strays(cluster, group, missing, used)
    kept = kept_charge(cluster, group.key) if cluster.policy.reschedules else ()
    if missing and (group.decided.nominations or kept):
        nominated: Amounts = dict(kept)
        for one in group.decided.nominations.values():
            add(nominated, one.charge, 1)
        missing = _less(cluster, missing, nominated)
    return tuple(missing), used


def _less(
    cluster: "Cluster", wanted: Iterable[tuple[str, int]], held: Amounts
) -> list[tuple[str, int]]:
    """Return what is wanted beyond what is held. What serves it is removed from `held`."""
    missing: list[tuple[str, int]] = []
    choices = cluster.cards.by_resource
    for name, amount in wanted:
        left = amount
        members: Iterable[str] = (name,)
        if "|" in name or name in choices:
            members = dict.fromkeys((*cards_of_charge(cluster, name), name))
        for member in members:
            if taken := min(held.get(member, 0), left):
                held[member] -= taken
                left -= taken
        if left:
            missing.append((name, left))
    return missing


def _asked_by_gated(cluster: "Cluster", group: PodGroup) -> Amounts:
    """Return what the pods of a group with scheduling gates ask for."""
    gated: Amounts = {}
    for pod in group.pods.values():
        if pod.status == GATED:
            add(gated, requested(cluster, pod.pod_class), 1)
    return gated


def _with_strays(
    cluster: "Cluster", group: PodGroup, missing: list[tuple[str, int]], used: Amounts
) -> list[tuple[str, int]]:
    """Subtract from missing cards what pods are charged for cards that no pod of the group requests.

    The label of the node changed since, or another scheduler placed the pod there: the pod has what it needs.
    """

    def asked_by_live() -> set[str]:
        return _asked_by(cluster, [group.classes[index] for index in group.live_classes])

    def asked_by_all() -> set[str]:
        classes = {pod.pod_class.index: pod.pod_class for pod in group.pods.values()}
        return _asked_by(cluster, classes.values())

    strays = cluster.plugins.quota.charging.strays(used, asked_by_live, asked_by_all)
    if not strays:
        return missing
    left: list[tuple[str, int]] = []
    for name, amount in missing:
        for stray in strays if name not in PLAIN else ():
            taken = min(used[stray], amount)
            used[stray] -= taken
            amount -= taken
        if amount:
            left.append((name, amount))
    return left


def _asked_by(cluster: "Cluster", classes: Iterable[PodClass]) -> set[str]:
    """Return the charge names that pods of these classes request, and their cards."""
    return {
        card
        for one in classes
        for name, _ in requested(cluster, one)
        for card in (name, *cards_of_charge(cluster, name))
    }
