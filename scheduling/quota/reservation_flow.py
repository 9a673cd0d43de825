"""How much of a reservation fits beside others, if each may be served by several cards.

Reservations are sources, cards are sinks; a reservation flows into any card that it names. The graphs are tiny
(names in one queue's quota), so a plain search for augmenting paths is fast enough.
"""

from collections.abc import Mapping


def extra_flow(
    held: Mapping[str, int],
    wanted: tuple[str, int],
    room: Mapping[str, int],
    reach: Mapping[str, tuple[str, ...]],
) -> int:
    """Return how much of `wanted` (name, amount) fits into `room` after as much of `held` as possible."""
    name, amount = wanted
    network = _Network(room, reach)
    for other in sorted(held):
        network.push(other, held[other])
    return network.push(name, amount)


class _Network:
    def __init__(self, room: Mapping[str, int], reach: Mapping[str, tuple[str, ...]]) -> None:
        self.free = dict(room)
        self.preemptible = reach
        self.placed: dict[str, dict[str, int]] = {}
        """Card to reservation to the amount placed there."""

    def push(self, name: str, amount: int) -> int:
        """Place as much of `amount` as fits, moving placed amounts if necessary."""
        done = 0
        while done < amount:
            path = self._path(name)
            if path is None:
                break
            step = min(amount - done, self.free[path[-1][1]])
            for (mover, card), (_, target) in zip(path[1:], path, strict=False):
                step = min(step, self.placed[target][mover])
                del card
            self._shift(path, step)
            done += step
        return done

    def _path(self, name: str) -> list[tuple[str, str]] | None:
        """Return moves (reservation, card) that end at a card with room: each but the first makes room."""
        seen: dict[str, None] = {}
        queue: list[list[tuple[str, str]]] = [[(name, card)] for card in self.preemptible[name]]
        while queue:
            path = queue.pop(0)
            card = path[-1][1]
            if card in seen:
                continue
            seen[card] = None
            if self.free.get(card, 0) > 0:
                return path
            for other in sorted(self.placed.get(card, {})):
                queue.extend([*path, (other, target)] for target in self.preemptible[other])
        return None

    def _shift(self, path: list[tuple[str, str]], step: int) -> None:
        for index, (mover, card) in enumerate(path):
            if index:
                left = self.placed[path[index - 1][1]]
                left[mover] -= step
                if not left[mover]:
                    del left[mover]
            there = self.placed.setdefault(card, {})
            there[mover] = there.get(mover, 0) + step
        self.free[path[-1][1]] -= step
