"""Admission to card quotas, against every way in which reservations could fall on cards."""

from collections.abc import Mapping
from itertools import chain, combinations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from features.table import FEATURES
from projections.cards import QUOTA_ANNOTATION
from projections.cluster import Cluster
from projections.objects import Metadata, QueueObject
from projections.pod_class import PodClass
from projections.queues import Queue, queue_facts
from scheduling.card_choice import CardChoice
from scheduling.quota.card_selection import choose_cards
from scheduling.quota.quota_check import may_enqueue

CARDS = ("A", "B", "C")
NAMES = ("A", "B", "C", "A|B", "A|C", "B|C", "A|B|C")
GPU = "nvidia.com/gpu"

counts = st.fixed_dictionaries({card: st.integers(0, 6) for card in CARDS})
reservations = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5), max_size=4)


def queue(
    quota: Mapping[str, int], used: Mapping[str, int], held: Mapping[str, int]
) -> tuple[Cluster, Queue]:
    """A queue with a ledger, in a cluster with nodes of all models."""
    cluster = Cluster(FEATURES)
    for card in CARDS:
        cluster.cards.shift(card, GPU, 1)
    annotation = msgspec.json.encode(quota).decode()
    meta = Metadata(name="q", annotations={QUOTA_ANNOTATION: annotation})
    found = cluster.ensure_queue("q")
    found.set_object(queue_facts(QueueObject(metadata=meta)), "")
    cluster.queue_objects = 1
    found.allocated = {card: count for card, count in used.items() if count}
    found.inqueue = dict(held)
    return cluster, found


def hosted(wanted: Mapping[str, int], room: Mapping[str, int]) -> int:
    """How much of these reservations the room can host: the least cut over all sets of cards."""
    sets = chain.from_iterable(combinations(CARDS, size) for size in range(len(CARDS) + 1))
    return min(
        sum(room[card] for card in cut)
        + sum(amount for name, amount in wanted.items() if not set(name.split("|")) <= set(cut))
        for cut in sets
    )


@given(
    quota=counts,
    used=counts,
    held=reservations,
    name=st.sampled_from(NAMES),
    amount=st.integers(1, 8),
)
def test_a_group_is_admitted_as_long_as_all_reservations_can_be_served(
    quota: dict[str, int], used: dict[str, int], held: dict[str, int], name: str, amount: int
) -> None:
    cluster, found = queue(quota, used, held)
    ours = name.split("|")
    is_in_sum = sum(used[one] for one in ours) + amount <= sum(quota[one] for one in ours)
    room = {card: max(0, quota[card] - used[card]) for card in CARDS}
    both = {**held, name: held.get(name, 0) + amount}
    fits = hosted(both, room) - hosted(held, room) >= amount
    short = may_enqueue(cluster, found, {name: amount})
    assert (short is None) == (is_in_sum and fits)
    if short is not None:
        assert (short.code, short.limit) == ("InsufficientScalarQuota", name)
        numbers = [int(part.partition(">")[0]) for part in short.message.split("<")[3:]]
        assert numbers[0] == amount * 1000
        assert numbers[1] > numbers[2]


@given(quota=counts, used=counts, name=st.sampled_from(NAMES), amount=st.integers(1, 8))
def test_a_pod_is_charged_only_a_card_with_enough_quota_left(
    quota: dict[str, int], used: dict[str, int], name: str, amount: int
) -> None:
    cluster, found = queue(quota, used, {})
    names = tuple(name.split("|"))
    pod_class = PodClass(index=0, request=((GPU, amount), ("pods", 1)), cards=names)
    chosen = choose_cards(cluster, found, pod_class, {}, infers_cards=False)
    left = tuple(one for one in names if used[one] + amount <= quota[one])
    if left:
        assert chosen == CardChoice(left, tuple(one for one in names if one not in left))
    else:
        assert not isinstance(chosen, CardChoice)
        assert chosen.message.count("has insufficient") == len(names)
        assert all(f"<{one}>" in chosen.message for one in names)
