"""Which placement strategies the policy lets serve which queues.

A strategy is for a pod group by what the group asks of the network (labels and annotations of its job). The rules of a
policy say which strategies there are, in which order they are tried, and for which queues:

    placement:
      - {strategy: super-pods}
      - {strategy: leaf-switches, queues: [train]}
      - {strategy: node-by-node}
"""

from abc import ABC
from typing import ClassVar, Final

from msgspec import Struct

from events.errors import PolicyError
from projections.policy.policy_values import Warn, items_at, object_at, text_at

HYPER_NODES: Final = "hyper-nodes"
NODE_BY_NODE: Final = "node-by-node"
STRATEGIES: Final = (HYPER_NODES, NODE_BY_NODE)
"""Names of the strategies that no feature brings. Without rules they are tried in this order, after those of features."""


class NamedStrategy(ABC):
    """A placement strategy as policies name it."""

    name: ClassVar[str]


class PlacementRule(Struct, frozen=True):
    """A strategy, and the queues whose pod groups it places."""

    strategy: str
    queues: tuple[str, ...] = ()
    """Empty: all."""

    def is_for(self, queue: str) -> bool:
        """Return whether the strategy serves pod groups of a queue."""
        return not self.queues or queue in self.queues


def read_placement(
    value: object, warn: Warn, strategies: tuple[str, ...]
) -> tuple[PlacementRule, ...]:
    """Return the rules of a policy; without any, all `strategies` serve all queues. Raise PolicyError."""
    rules: list[PlacementRule] = []
    for index, entry in enumerate(items_at(value, "placement")):
        path = f"placement[{index}]"
        given = object_at(entry, path)
        for key in given:
            if key not in ("strategy", "queues"):
                warn(f"{path}.{key}", "muster does not know this key")
        strategy = text_at(given.get("strategy"), f"{path}.strategy")
        if strategy not in strategies:
            known = ", ".join(strategies)
            raise PolicyError(f"{path}.strategy: {strategy!r} is not one of {known}")
        queues = items_at(given.get("queues"), f"{path}.queues")
        names = [text_at(one, f"{path}.queues[{at}]") for at, one in enumerate(queues)]
        if "queues" in given and not names:
            raise PolicyError(f"{path}.queues: no queue is named")
        rules.append(PlacementRule(strategy, tuple(names)))
    return tuple(rules) or tuple([PlacementRule(one) for one in strategies])
