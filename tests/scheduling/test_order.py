"""The order of queues: shares are compared exactly, and nothing is left to chance."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from features.table import FEATURES
from projections.cluster import Cluster
from projections.objects import Metadata, QueueObject
from projections.queues import Queue, QueueFacts, queue_facts
from scheduling.quota.queue_order import QueueSortKey, ordering_rules, plain_key
from scheduling.quota.quota_rules import quota_of


def queue(name: str, quota: dict[str, int], allocated: dict[str, int], priority: int = 0) -> Queue:
    """A queue with a card quota."""
    made = Queue(name)
    plain: QueueFacts = queue_facts(QueueObject(metadata=Metadata(name=name, uid=f"uid-{name}")))
    made.set_object(structs.replace(plain, quota=quota, priority=priority), "")
    made.allocated = allocated
    return made


amounts = st.fixed_dictionaries({"A": st.integers(0, 10**15), "B": st.integers(0, 10**15)})
queues = st.lists(
    st.tuples(amounts, amounts, st.integers(0, 2)), min_size=2, max_size=6
).map(lambda drawn: [queue(f"q{i}", *one) for i, one in enumerate(drawn)])  # fmt: skip


def exact(one: Queue) -> tuple[int, Fraction, str]:
    """Priority, share and name, as the rule has them."""
    facts = one.facts
    assert facts is not None
    shares = [
        Fraction(one.allocated.get(name, 0), entitled)
        for name, entitled in facts.quota.items()
        if entitled
    ]
    return -facts.priority, max(shares, default=Fraction(0)), one.name


@given(queues)
def test_queues_are_ordered_by_priority_share_and_name(given_queues: list[Queue]) -> None:
    cluster = Cluster(FEATURES)
    turns = sorted(QueueSortKey(cluster, one) for one in given_queues)
    ordered = [turn.queue for turn in turns]
    assert ordered == sorted(given_queues, key=exact)
    for one, next_one in pairwise(turns):
        assert one < next_one
        assert not next_one < one
        assert plain_key(cluster, one.queue, ordering_rules(cluster)) < plain_key(
            cluster, next_one.queue, ordering_rules(cluster)
        )


def test_shares_equal_as_floats_are_ordered_exactly() -> None:
    cluster, large = Cluster(FEATURES), 10**17
    less = queue("z", {"A": large + 1}, {"A": large})
    more = queue("a", {"A": large}, {"A": large})
    assert QueueSortKey(cluster, less) < QueueSortKey(cluster, more)
    assert plain_key(cluster, less, ordering_rules(cluster)) < plain_key(
        cluster, more, ordering_rules(cluster)
    )
    assert large / (large + 1) == 1.0


def test_a_third_is_a_third_however_it_is_written() -> None:
    cluster = Cluster(FEATURES)
    one, other = queue("a", {"A": 3}, {"A": 1}), queue("b", {"A": 6}, {"A": 2})
    assert QueueSortKey(cluster, one) < QueueSortKey(cluster, other)
    assert (
        plain_key(cluster, one, ordering_rules(cluster))[1]
        == plain_key(cluster, other, ordering_rules(cluster))[1]
    )
    assert quota_of(cluster).share(cluster, one) == (1, 3)


def test_a_queue_that_deserves_nothing_has_no_share() -> None:
    cluster = Cluster(FEATURES)
    rules = quota_of(cluster)
    assert rules.share(cluster, queue("a", {}, {"A": 1})) == (0, 1)
    assert rules.share(cluster, queue("a", {"A": 0}, {"A": 1})) == (0, 1)
