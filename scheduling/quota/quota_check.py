"""Checks of a queue's limits against its charges.

    enqueue : minimum(group) + allocated + inqueue - elastic <= limit
    allocate: request(pod) + allocated                       <= limit

Only requested resources are compared, and equality passes. Nominations count as allocated. Under `capacity-card`
the limits are the queue's capability of cpu and memory and its card quota; under `capacity` its real capability,
and that of each ancestor; under `proportion` a queue may reserve up to its real capability and use what it
deserves.
"""

from collections.abc import Mapping

from msgspec import structs

from events.requeue import QUEUE_UPDATED
from projections.charging import PLAIN
from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.queues import Queue
from projections.quota_charging import cards_of_charge
from scheduling.quota.quota_rules import quota_of
from scheduling.quota.reservation_flow import extra_flow
from scheduling.shortage import Shortage, shortage


def why_queue_closed(cluster: Cluster, queue: Queue, *, allocates: bool = False) -> Shortage | None:
    """Return why the queue accepts no pod group at all, or None; `allocates` if the question is about pods of
    admitted groups."""
    if (reason := queue.closed_reason) is not None:
        return Shortage(reason[0], queue.name, reason[1], requeue_on=(QUEUE_UPDATED,))
    return quota_of(cluster).closed(cluster, queue, allocates=allocates)


def share_of(queue: Queue, deserved: Amounts) -> tuple[int, int]:
    """Return used / deserved of a queue in the resource where it is largest, as numerator and denominator. A resource of
    which the queue deserves nothing does not count."""
    best = (0, 1)
    own, below = queue.allocated, queue.below.get("allocated")
    for name, entitled in deserved.items():
        if not entitled:
            continue
        allocated = own.get(name, 0)
        if below:
            allocated += below.get(name, 0)
        if allocated * best[1] > best[0] * entitled:
            best = (allocated, entitled)
    return best


def used(queue: Queue, name: str, extra: Mapping[str, int]) -> int:
    """Return what is allocated or nominated of a resource, `extra` included."""
    if queue.is_in_tree:
        return (
            queue.sum_of("allocated", name) + queue.sum_of("nominated", name) + extra.get(name, 0)
        )
    return queue.allocated.get(name, 0) + queue.nominated.get(name, 0) + extra.get(name, 0)


def limit_of(cluster: Cluster, queue: Queue, name: str) -> int | None:
    """Return how much of a charge name the queue may use, for a choice of cards the sum of their limits; None without
    a limit. Every table of quotas shows this."""
    if is_never_charged(cluster, name):
        return None
    return _sum(
        [cluster.plugins.quota.limit(cluster, queue, one) for one in cards_of_charge(cluster, name)]
    )


def admission_limit_of(cluster: Cluster, queue: Queue, name: str) -> int | None:
    """Return the same for what the queue may use and reserve together."""
    limit = cluster.plugins.quota.admission_limit
    return _sum([limit(cluster, queue, one) for one in cards_of_charge(cluster, name)])


def is_never_charged(cluster: Cluster, name: str) -> bool:
    """Return whether a resource of nodes is charged to no queue: quotas are those of cards, and it is no card of any
    node, as on nodes without a label of the product."""
    charging = cluster.plugins.quota.charging
    return name in cluster.resources.allocatable and charging.is_never_charged(cluster.cards, name)


def _sum(limits: list[int | None]) -> int | None:
    stated = [one for one in limits if one is not None]
    return sum(stated) if len(stated) == len(limits) else None


def may_enqueue(
    cluster: Cluster,
    queue: Queue,
    least: Amounts,
    reclaimable: Mapping[str, Amounts] | None = None,
    *,
    yielded: Mapping[str, Amounts] | None = None,
) -> Shortage | None:
    """Return why a group that asks for so much is not admitted, or None. `reclaimable` is what evictions could release,
    `yielded` what is reserved for groups that would lose it to this one, by queue."""
    reclaimable, yielded = reclaimable or {}, yielded or {}
    quota = cluster.plugins.quota
    plain: Amounts = {}
    choices: Amounts = {}
    for name, amount in least.items():
        of_kind = choices if quota.limits_card(name) else plain
        of_kind[name] = amount
    for one in queue.lineage:
        short: list[Shortage] = []
        for name, amount in plain.items():
            most = quota.admission_limit(cluster, one, name)
            if most is None:
                continue
            less = reclaimable.get(one.name, {}).get(name, 0)
            less += yielded.get(one.name, {}).get(name, 0)
            total = committed(one, name) - less + amount
            if total > most:
                short.append(shortage(one.name, name, amount, total, most))
        if short:
            found = _all_of(short) if quota.lists_shortages else short[0]
            helps = _fits_beside_nodes(cluster, queue, plain, {}, reclaimable, reserves=True)
            return structs.replace(found, node_helps=helps or None)
    if not choices:
        return None
    released, ours = reclaimable.get(queue.name, {}), yielded.get(queue.name, {})
    if len(choices) == 1 and not ours:
        [(card, amount)] = choices.items()
        most = quota.limit(cluster, queue, card)
        if fits_beside_choices(cluster, queue, card, amount, most, released.get(card, 0)):
            return None
    return _may_reserve(cluster, queue, choices, released, ours)


def fits_beside_choices(
    cluster: Cluster, queue: Queue, card: str, amount: int, most: int | None, released: int = 0
) -> bool:
    """Return True if the quota `most` of a card has room for so many even if that served every reservation that it may
    serve: the usual case, in which no other card has to be looked at."""
    choices = cluster.cards.by_resource
    if "|" in card or card in choices:
        return False
    if most is None:
        return True
    room = most - used(queue, card, {}) + queue.elastic.get(card, 0) + released
    for name, kept in queue.inqueue.items():
        is_choice = "|" in name or name in choices
        if name == card or (is_choice and card in cards_of_charge(cluster, name)):
            room -= max(0, kept)
    return amount <= room


def reserved(queue: Queue, name: str) -> int:
    """Return what is reserved of a resource, less what groups use above their minimum."""
    if queue.is_in_tree:
        return queue.sum_of("inqueue", name) - queue.sum_of("elastic", name)
    return queue.inqueue.get(name, 0) - queue.elastic.get(name, 0)


def committed(queue: Queue, name: str) -> int:
    """Return what is used or reserved of a resource."""
    if queue.is_in_tree:
        return used(queue, name, {}) + reserved(queue, name)
    held = queue.allocated.get(name, 0) + queue.nominated.get(name, 0)
    return held + queue.inqueue.get(name, 0) - queue.elastic.get(name, 0)


def _all_of(short: list[Shortage]) -> Shortage:
    """Return one refusal for all resources that are short; it begins with the message of Volcano's `capacity`."""
    names = ", ".join(f"insufficient {name}" for name in sorted(one.limit for one in short))
    numbers = "; ".join(one.message for one in short)
    message = f"queue resource quota insufficient: {names}: {numbers}"
    return structs.replace(short[0], message=message)


def _may_reserve(
    cluster: Cluster, queue: Queue, wanted: Amounts, reclaimable: Amounts, yielded: Amounts
) -> Shortage | None:
    """Return why the card quotas cannot hold these reservations beside all existing ones, or None.

    Reservations of several cards are a flow from reservations to the cards that may serve them.
    """
    held = {
        name: amount - yielded.get(name, 0)
        for name, amount in queue.inqueue.items()
        if name not in PLAIN and amount > yielded.get(name, 0)
    }
    reach = {name: cards_of_charge(cluster, name) for name in (*held, *wanted)}
    room: Amounts = {}
    for card in sorted({card for cards in reach.values() for card in cards}):
        most = cluster.plugins.quota.limit(cluster, queue, card)
        if most is None:
            return None
        spare = queue.elastic.get(card, 0) + reclaimable.get(card, 0)
        room[card] = max(0, most - used(queue, card, {}) + spare)
    for name in sorted(wanted):
        amount, ours = wanted[name], reach[name]
        most = sum(cluster.plugins.quota.limit(cluster, queue, one) or 0 for one in ours)
        total = sum(used(queue, one, {}) - queue.elastic.get(one, 0) for one in ours) + amount
        total -= sum(reclaimable.get(one, 0) for one in ours)
        # The sum is the rule of the design. It is stricter where a card is used above its quota.
        fits = total <= most and (
            _fits_on_one_card(ours, amount, held, room, reach)
            or extra_flow(held, (name, amount), room, reach) >= amount
        )
        if not fits:
            total += sum(kept for other, kept in held.items() if set(reach[other]) & set(ours))
            short = shortage(queue.name, name, amount, total, most)
            # Reservations may move to any card that becomes free.
            others = tuple(card for card in room if card not in ours) if held else ()
            return structs.replace(short, alternatives=others)
        held = {**held, name: held.get(name, 0) + amount}
    return None


def _fits_on_one_card(
    cards: tuple[str, ...],
    amount: int,
    held: Amounts,
    room: Amounts,
    reach: Mapping[str, tuple[str, ...]],
) -> bool:
    """Return True if one card has room even if it served every reservation that it may serve: no flow is needed."""
    left = {card: room[card] for card in cards}
    for name, kept in held.items():
        for card in reach[name]:
            if card in left:
                left[card] -= kept
    return any(free >= amount for free in left.values())


def may_allocate(
    cluster: Cluster,
    queue: Queue,
    plain: tuple[tuple[str, int], ...],
    extra: Mapping[str, int],
    released: Mapping[str, Amounts] | None = None,
) -> Shortage | None:
    """Return why a pod may not be charged these amounts, cards with a choice excluded, or None.

    `extra` is charged to the queue by tentative placements; `released` is no longer charged to its ancestors
    because pods of other queues would be evicted.
    """
    quota = quota_of(cluster)
    if not quota.limits_pods:
        return None
    for one in queue.lineage:
        less = released.get(one.name, {}) if released else {}
        for name, amount in plain:
            most = quota.limit(cluster, one, name)
            if most is None:
                continue
            total = used(one, name, extra) + amount - less.get(name, 0)
            if total > most:
                found = shortage(one.name, name, amount, total, most)
                helps = _fits_beside_nodes(cluster, queue, dict(plain), extra, released or {})
                return structs.replace(found, node_helps=helps or None)
    return None


def has_quota_for(cluster: Cluster, queue: Queue, charges: Mapping[str, int]) -> bool:
    """Return whether a queue has quota for these charges together, or would have it if nodes were added."""
    limits_card = cluster.plugins.quota.limits_card
    plain = {name: n for name, n in charges.items() if not limits_card(name)}
    short = may_allocate(cluster, queue, tuple(plain.items()), {})
    if short is not None and not short.node_helps:
        return False
    for name, amount in charges.items():
        if name in plain:
            continue
        cards = cards_of_charge(cluster, name)
        limits = [cluster.plugins.quota.limit(cluster, queue, one) for one in cards]
        if None not in limits:
            total = sum(used(queue, one, {}) for one in cards) + amount
            if total > sum(one or 0 for one in limits):
                return False
    return True


def _fits_beside_nodes(
    cluster: Cluster,
    queue: Queue,
    amounts: Mapping[str, int],
    extra: Mapping[str, int],
    released: Mapping[str, Amounts],
    *,
    reserves: bool = False,
) -> bool:
    """Return whether the limits that stay whatever nodes are added have room for these amounts: those that refuse them
    are shares of the cluster, and grow with it."""
    limit = quota_of(cluster).limit_beside_nodes
    for one in queue.lineage:
        less = released.get(one.name, {})
        for name, amount in amounts.items():
            most = limit(cluster, one, name)
            if most is None:
                continue
            total = used(one, name, extra) + amount - less.get(name, 0)
            if total + (reserved(one, name) if reserves else 0) > most:
                return False
    return True
