"""Pools of nodes, and the decider of each. Without any, all nodes are one pool `default`, decided by `session`."""

from typing import Final

from msgspec import Struct

from events.errors import PolicyError
from projections.plugin import Warn
from projections.policy_values import items_at, object_at, text_at

SESSION: Final = "session"
"""The decider of Volcano's kind: actions over tiers of plugins."""

DECIDERS: Final = (SESSION,)
"""Names of the deciders of this release."""


class Pool(Struct, frozen=True):
    """A pool of nodes."""

    name: str = "default"
    decider: str = SESSION


def read_pools(value: object, warn: Warn) -> tuple[Pool, ...]:
    """Return the pools of a policy. Raise PolicyError: this release decides all nodes as one pool."""
    pools: list[Pool] = []
    for index, entry in enumerate(items_at(value, "pools")):
        path = f"pools[{index}]"
        given = object_at(entry, path)
        for key in given:
            if key not in ("name", "decider", "nodeSelector"):
                warn(f"{path}.{key}", "muster does not know this key")
        name = text_at(given.get("name"), f"{path}.name")
        decider = text_at(given.get("decider", SESSION), f"{path}.decider")
        if decider not in DECIDERS:
            raise PolicyError(f"{path}.decider: {decider!r} is not a decider of this release")
        if object_at(given.get("nodeSelector", {}), f"{path}.nodeSelector"):
            raise PolicyError(f"{path}.nodeSelector: this release decides all nodes as one pool")
        pools.append(Pool(name, decider))
    if len(pools) > 1:
        raise PolicyError("pools[1]: this release decides all nodes as one pool")
    return tuple(pools) or (Pool(),)
