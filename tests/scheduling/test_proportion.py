"""What queues deserve by weight: all there is, as far as they ask for it."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.plugins.proportion import WHOLE, QueueDemand, compute_deserved


def asking(
    name: str, weight: int, most: int | None = None, least: int = 0, **request: int
) -> QueueDemand:
    """A queue that asks for something; limit and guarantee are of cpu."""
    return QueueDemand(
        name=name,
        weight=weight,
        request={one: amount * WHOLE for one, amount in request.items()},
        most={} if most is None else {"cpu": most * WHOLE},
        least={"cpu": least * WHOLE} if least else {},
    )


def test_what_one_does_not_ask_for_goes_to_the_others() -> None:
    queues = [asking("a", 1, cpu=10), asking("b", 2, cpu=3)]
    assert compute_deserved({"cpu": 12}, queues) == {"a": {"cpu": 9}, "b": {"cpu": 3}}


def test_deserved_is_capped_by_capability() -> None:
    queues = [asking("a", 1, most=4, cpu=10), asking("b", 1, cpu=10)]
    assert compute_deserved({"cpu": 12}, queues) == {"a": {"cpu": 4}, "b": {"cpu": 8}}


def test_a_guarantee_comes_before_weight_and_request() -> None:
    queues = [asking("a", 9, cpu=10), asking("b", 1, least=5, cpu=1)]
    assert compute_deserved({"cpu": 10}, queues) == {"a": {"cpu": 9}, "b": {"cpu": 5}}


def test_thirds_add_up_to_a_whole() -> None:
    queues = [asking("a", 1, cpu=2), asking("b", 1, cpu=1), asking("c", 1, cpu=1)]
    assert compute_deserved({"cpu": 3}, queues)["a"] == {"cpu": 1}


queues = st.lists(
    st.tuples(st.integers(1, 100), st.integers(0, 10_000)), min_size=1, max_size=8
).map(lambda drawn: [asking(f"q{i}", weight, cpu=cpu) for i, (weight, cpu) in enumerate(drawn)])  # fmt: skip


@given(queues, st.integers(0, 20_000))
def test_deserved_never_exceeds_the_cluster_and_leaves_no_request_unserved(
    given_queues: list[QueueDemand], total: int
) -> None:
    deserved = compute_deserved({"cpu": total}, given_queues)
    given_out = sum(one.get("cpu", 0) for one in deserved.values())
    asked_for = sum(one.request["cpu"] // WHOLE for one in given_queues)
    assert given_out <= min(total, asked_for)
    assert given_out >= min(total, asked_for) - len(given_queues)
    for one in given_queues:
        assert deserved[one.name].get("cpu", 0) <= one.request["cpu"] // WHOLE
