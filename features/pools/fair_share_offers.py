"""Fair share: the number of slots that a pool offers to each of its groups.

The formula is that of Determined's fair-share scheduler, with the corrections named below. A group first gets its
*fixed* slots: those of its running tasks that cannot be preempted. They are a *credit*: later shares are charged to it
before they take slots. The remaining slots are given out in rounds. In a round, each live group (offer below demand), by
demand, age and key, gets

    max(1, floor(remaining slots x effective weight / effective weights of all live groups))

but no more than is left and than its demand; the slots and the sum are those at the start of the round. When no slot is left,
the youngest group whose smallest queued task needs more than its offer is disabled: it falls back to its fixed slots, and
the next round gives out the slots that it returns. Determined takes the youngest group wrongly if there are three or more,
disables groups to an offer of 0 even if they hold fixed slots, and lowers the sum of weights inside a round.

The effective weight is the weight (basis "equal") or the weight times the demand (basis "demand"). Weights are brought to a
common denominator once; all other numbers are whole.
"""

from collections.abc import Iterator, Sequence
from math import gcd, lcm
from typing import Literal, TypeAlias

from msgspec import Struct

ShareBasis: TypeAlias = Literal["demand", "equal"]


class ShareGroup(Struct, frozen=True):
    """A group that takes part in the fair share of a pool. Amounts are slots.

    Raises ValueError if the weight is not positive, or if not 0 <= fixed <= demand.
    """

    key: str
    """Unique in the pool."""

    weight_numerator: int
    weight_denominator: int

    demand: int
    """Slots of its queued and running tasks, at most `max_slots` of the group, at least `fixed`."""

    fixed: int
    """Slots of its running tasks that cannot be preempted."""

    age: tuple[int | str, ...]
    """Sort key of its oldest task: smaller is older."""

    smallest_queued: int
    """Slots of its smallest queued task; 0 if it has none."""

    def __post_init__(self) -> None:
        if self.weight_numerator <= 0 or self.weight_denominator <= 0:
            raise ValueError(
                f"group {self.key}: weight {self.weight_numerator}/{self.weight_denominator} is not positive"
            )
        if not 0 <= self.fixed <= self.demand:
            raise ValueError(
                f"group {self.key}: fixed slots {self.fixed} are not between 0 and demand {self.demand}"
            )


class Offer(Struct, frozen=True):
    """The slots that a group may hold."""

    slots: int

    is_disabled: bool
    """Whether the share was too small for each queued task, so that only the fixed slots are offered."""


def effective_weights(groups: Sequence[ShareGroup], basis: ShareBasis) -> list[int]:
    """Return the effective weight of each group, multiplied by a common positive factor to a whole number."""
    common = lcm(*(group.weight_denominator for group in groups))
    weights = [group.weight_numerator * (common // group.weight_denominator) for group in groups]
    divisor = gcd(*weights) or 1
    if basis == "equal":
        return [weight // divisor for weight in weights]
    return [weight // divisor * group.demand for weight, group in zip(weights, groups, strict=True)]


class _LiveGroups:
    """Offers of the groups, by position in their order, and a linked list of the live ones.

    A group is live while it is not disabled and its offer is below its demand. The cost of a round is one step for each
    group that gets slots in it, since a round ends when no slot is left.
    """

    __slots__ = ("credits", "demands", "end", "following", "offers", "preceding", "sum", "weights")

    def __init__(self, groups: Sequence[ShareGroup], weights: Sequence[int]) -> None:
        self.end = len(groups)
        """Position before the first and after the last group."""
        self.demands = [group.demand for group in groups]
        self.offers = [group.fixed for group in groups]
        self.credits = [group.fixed for group in groups]
        """Slots that later shares are charged to before they take slots."""
        self.weights = weights
        self.following: list[int] = [*range(1, self.end + 1), 0]
        self.preceding: list[int] = [self.end, *range(self.end)]
        self.sum = sum(weights)
        """Sum of the weights of the live groups."""
        for position, group in enumerate(groups):
            if group.fixed == group.demand:
                self.remove(position)

    def __bool__(self) -> bool:
        return self.following[self.end] != self.end

    def remove(self, position: int) -> None:
        """Remove a group from the live ones."""
        before, after = self.preceding[position], self.following[position]
        self.following[before], self.preceding[after] = after, before
        self.sum -= self.weights[position]

    def distribute(self, remaining: int) -> int:
        """Give out slots in one round, and return how many are left. `remaining` is positive."""
        demands, offers, credit_of = self.demands, self.offers, self.credits
        weights, following, end = self.weights, self.following, self.end
        slots, total = remaining, self.sum
        position = following[end]
        while position != end and remaining:
            share = slots * weights[position] // total or 1
            offer, demand = offers[position], demands[position]
            given = min(share, remaining, demand - offer)
            if credit := credit_of[position]:
                used = min(credit, given)
                credit_of[position] = credit - used
                given -= used
            if given:
                offers[position] = offer + given
                remaining -= given
                if offer + given == demand:
                    self.remove(position)
            position = following[position]
        return remaining

    def skip_charged_rounds(self, remaining: int) -> None:
        """Make at once all next rounds in which each share is charged to credits, so that nothing else changes.

        Without it, one remaining slot beside a group with a million fixed slots takes a million rounds.
        """
        shares = {
            position: min(
                remaining * self.weights[position] // self.sum or 1,
                remaining,
                self.demands[position] - self.offers[position],
            )
            for position in self.positions()
        }
        rounds = min(self.credits[position] // share for position, share in shares.items())
        if rounds:
            for position, share in shares.items():
                self.credits[position] -= rounds * share

    def positions(self) -> Iterator[int]:
        """Yield the positions of the live groups in order."""
        position = self.following[self.end]
        while position != self.end:
            yield position
            position = self.following[position]


def offers(capacity: int, groups: Sequence[ShareGroup], basis: ShareBasis) -> dict[str, Offer]:
    """Return the offer of each group by its key, in the order in which slots are given out.

    `capacity` is the number of slots of the pool. The number of steps grows with the capacity and the slots that disabled
    groups return, beside sorting. Raises ValueError if two groups have the same key.
    """
    ordered = sorted(groups, key=lambda group: (group.demand, group.age, group.key))
    live = _LiveGroups(ordered, effective_weights(ordered, basis))
    remaining = capacity - sum(group.fixed for group in ordered)
    # The offer of a group only grows until the group is disabled: one that is passed over once is no candidate again.
    youngest_first = iter(
        sorted(
            (position for position in live.positions() if ordered[position].smallest_queued),
            key=lambda position: (ordered[position].age, ordered[position].key),
            reverse=True,
        )
    )
    disabled = set[int]()
    while live:
        if remaining > 0:
            before, remaining = remaining, live.distribute(remaining)
            if remaining == before:
                live.skip_charged_rounds(remaining)
        if remaining <= 0:
            for position in youngest_first:
                offer, group = live.offers[position], ordered[position]
                if group.smallest_queued > offer < group.demand:
                    break
            else:
                break
            disabled.add(position)
            live.remove(position)
            live.offers[position] = group.fixed
            remaining += offer - group.fixed
    result = {
        group.key: Offer(live.offers[position], position in disabled)
        for position, group in enumerate(ordered)
    }
    if len(result) != len(ordered):
        raise ValueError("two groups of a pool have the same key")
    return result
