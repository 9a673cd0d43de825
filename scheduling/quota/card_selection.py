"""Cards that a pod may be charged: those that it names, within its queue's quota of each.

Cards that the cluster does not have are ignored; the others must all be counted by the same resource, because the
request of a pod does not depend on its node. The messages are those of the card-quota design.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from events.requeue import ANY_NODE
from projections.cluster import Cluster
from projections.pod_class import CARD_NAME, Amounts, PodClass
from projections.pods import Charge
from projections.queues import Queue
from scheduling.card_choice import CardChoice
from scheduling.quota.quota_check import used
from scheduling.quota.selector_conflict import selector_conflict
from scheduling.shortage import Shortage, shortage

UNNAMED: Final = "UnnamedCard"
FAILED: Final = "GetTaskRequestResourceFailed"


def choose_cards(
    cluster: Cluster,
    queue: Queue,
    pod_class: PodClass,
    extra: Mapping[str, int],
    *,
    infers_cards: bool,
) -> CardChoice | Shortage:
    """Return which cards a pod of this class may be charged now, or why none. With `infers_cards` one that names none may be
    charged any card."""
    quota = cluster.plugins.quota
    found = acceptable_cards(cluster, queue, pod_class, infers_cards=infers_cards)
    if found is None or isinstance(found, Shortage):
        return CardChoice(None) if found is None else found
    short: list[tuple[int, Shortage]] = []
    fitting: list[str] = []
    for name, amount in found:
        most = quota.limit(cluster, queue, name)
        total = used(queue, name, extra) + amount
        if most is None or total <= most:
            fitting.append(name)
        else:
            short.append((total - most, shortage(queue.name, name, amount, total, most)))
    if fitting:
        return CardChoice(tuple(fitting), tuple([one.limit for _, one in short]) if short else ())
    short.sort(key=lambda one: one[0])
    nearest = short[0][1]
    message = "; ".join(one.message for _, one in short)
    others = tuple(one.limit for _, one in short[1:])
    return structs.replace(nearest, message=message, alternatives=others)


def acceptable_cards(
    cluster: Cluster, queue: Queue, pod_class: PodClass, *, infers_cards: bool
) -> Charge | Shortage | None:
    """Return the cards that would do, in order of preference, each with how many of it the pod would be charged; None for a
    pod without cards."""
    found = _acceptable(cluster, queue, pod_class, infers_cards=infers_cards)
    if found is None or isinstance(found, Shortage):
        return found
    (names, amounts), cards = found, cluster.cards
    if not cards.units:
        total = sum(amounts.values())
        return tuple([(name, total) for name in names])
    return tuple(
        [
            (name, sum([cards.charged(one, name, each) for one, each in amounts.items()]))
            for name in names
        ]
    )


def _acceptable(
    cluster: Cluster, queue: Queue, pod_class: PodClass, *, infers_cards: bool
) -> tuple[tuple[str, ...], Amounts] | Shortage | None:
    """Return the cards that would do, and what is requested of the resources that are charged as them."""
    cards = cluster.cards
    asked: Amounts = {}
    counting: dict[str, str] = {}
    for name, amount in pod_class.request:
        if name in cards.by_resource:
            asked[name] = amount
            counting[name] = cards.counting(name) if cards.units else name
    if not pod_class.cards:
        return _unnamed(cluster, queue, asked, counting, infers_cards=infers_cards)
    listed = "|".join(pod_class.cards)
    known: dict[str, str] = {}
    for card in pod_class.cards:
        if card in cards.resource:
            known[card] = cards.resource[card]
            for name, resource in counting.items():
                if card in cards.by_resource[name]:
                    known[card] = resource
                    break
    if not known:
        text = f"no resource name found for card <{listed}>"
        both = selector_conflict(cluster.device_families, pod_class)
        found = _failed(queue, listed, f"{text}; {both}" if both else text)
        # A node with one of the cards would do where the queue has any quota of it.
        limits = [cluster.plugins.quota.limit(cluster, queue, one) for one in pod_class.cards]
        helps = not both and any(one != 0 for one in limits)
        return structs.replace(found, node_helps=helps or None)
    kinds = tuple(dict.fromkeys(known.values()))
    if len(kinds) > 1:
        named = "|".join(known)
        text = f"cards <{named}> are counted by different resources: {', '.join(kinds)}"
        return _failed(queue, listed, text)
    if kinds[0] not in counting.values():
        named = "|".join(known)
        text = f"no resource <{kinds[0]}> defined in requests/limits for card <{named}>"
        return _failed(queue, listed, text)
    for name, resource in counting.items():
        if resource != kinds[0]:
            text = f"pod asks for <{name}> beside the cards that it names: {listed}"
            return Shortage(UNNAMED, name, text, requeue_on=(ANY_NODE,))
    return tuple(known), asked


def _unnamed(
    cluster: Cluster,
    queue: Queue,
    asked: Amounts,
    counting: Mapping[str, str],
    *,
    infers_cards: bool,
) -> tuple[tuple[str, ...], Amounts] | Shortage | None:
    """Return the cards of a pod that requests cards without naming any."""
    if not asked:
        return None
    first, *_ = asked
    if not infers_cards:
        text = f"pod asks for <{first}> and names no card: annotation {CARD_NAME}"
        return Shortage(UNNAMED, first, text, requeue_on=(ANY_NODE,))
    if len(dict.fromkeys(counting.values())) > 1:
        text = f"pod asks for cards of different resources: {', '.join(asked)}"
        return _failed(queue, first, text)
    return tuple(sorted(cluster.cards.by_resource[first])), asked


def _failed(queue: Queue, what: str, text: str) -> Shortage:
    message = f"Get request resource failed, Queue <{queue.name}>, error: <{text}>"
    return Shortage(FAILED, what, message, requeue_on=(ANY_NODE,))
