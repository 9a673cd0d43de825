"""May a queue take back what others have, and what must others give.

Volcano's `capacity`: a queue may, as long as it stays within what it deserves of at least one thing that
its pod asks for; a queue gives while it has more of something than it deserves, never what it is
guaranteed, and what it does not deserve at all at once. `proportion`: a queue may, as long as it stays within all
that it deserves; a queue gives while it has more than that of anything. Under `capacity-card` neither is
said: quotas alone limit.
"""

from collections.abc import Mapping
from fractions import Fraction

from projections.cluster import Cluster
from projections.pods import Charge
from projections.queues import Queue
from scheduling.quota.entitlement import deserved_of
from scheduling.quota.ledger import limit, may_allocate, used


def why_not_entitled(
    cluster: Cluster, queue: Queue, charge: Charge, extra: Mapping[str, int]
) -> str:
    """Why the queue may not reclaim for a pod that it would be charged so for; empty where it may."""
    short = may_allocate(cluster, queue, charge, extra)
    if short is not None:
        return short.message
    if cluster.policy.quota != "capacity":
        return ""
    deserved = deserved_of(cluster, queue)
    if any(used(queue, name, extra) + amount <= deserved.get(name, 0) for name, amount in charge):
        return ""
    asked = ", ".join(
        f"{name} {used(queue, name, extra) + amount} of {deserved.get(name, 0)}"
        for name, amount in charge
    )
    return f"Queue <{queue.name}> would have more than it deserves: {asked}"


def is_within_deserved(
    cluster: Cluster, queue: Queue, charge: Charge, extra: Mapping[str, int]
) -> bool:
    """Whether the queue stays within what it deserves of all that a pod is charged for."""
    deserved = deserved_of(cluster, queue)
    return all(
        used(queue, name, extra) + amount <= deserved.get(name, 0) for name, amount in charge
    )


def must_give(
    cluster: Cluster, queue: Queue, gone: Mapping[str, int], charge: Charge, asked: Charge
) -> bool:
    """Whether a queue must give up a pod that it is charged so for, after it gave `gone`, for one `asked` so."""
    deserved = deserved_of(cluster, queue)
    if cluster.policy.quota == "proportion":
        return any(
            amount - gone.get(name, 0) > deserved.get(name, 0)
            for name, amount in queue.allocated.items()
        )
    has = {name: queue.sum_of("allocated", name) - gone.get(name, 0) for name, _ in charge}
    wanted = [name for name, _ in asked]
    if not any(name in wanted for name in has):
        return False
    guarantee = {} if queue.facts is None else queue.facts.guarantee
    if any(has[name] - amount < guarantee.get(name, 0) for name, amount in charge):
        return False
    named = [name for name in has if name in deserved]
    return not named or any(has[name] > deserved[name] for name in named)


def share_with(cluster: Cluster, queue: Queue, more: Mapping[str, int]) -> Fraction:
    """The largest share of what it may claim that a queue has, with `more` than it is charged now."""
    most = Fraction(0)
    deserved = deserved_of(cluster, queue)
    for name in dict.fromkeys((*deserved, *queue.allocated, *more)):
        entitled = deserved.get(name) or limit(cluster, queue, name)
        if entitled:
            have = queue.sum_of("allocated", name) + more.get(name, 0)
            most = max(most, Fraction(have, entitled))
    return most
