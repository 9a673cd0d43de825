"""The key `queues` of the policy: which namespaces may use a queue, and what its jobs may state.

A queue that is not named is open to all namespaces, as in Volcano, and has the bounds of the pool alone.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.errors import PolicyError
from events.limits import object_name_problem
from projections.policy import job_bounds, namespace_rule
from projections.policy.job_bounds import JobBounds, read_job_bounds
from projections.policy.namespace_rule import NamespaceRule, read_namespace_rule
from projections.policy.policy_values import Warn, items_at, object_at, text_at

KEYS: Final = (*namespace_rule.KEYS, *job_bounds.KEYS)
"""Keys that entries of `queues` and of `pools` have in common."""


class UseRule(Struct, frozen=True):
    """Who may use a queue or a pool, and what a job may state there."""

    namespaces: NamespaceRule = NamespaceRule()
    bounds: JobBounds = JobBounds()


NO_RULE: Final = UseRule()


def read_use_rule(given: Mapping[str, object], path: str) -> UseRule:
    """Return the rule of an entry of `queues` or `pools`. Raise PolicyError, which names the path."""
    stated = dict(given)
    return UseRule(read_namespace_rule(stated, path), read_job_bounds(stated, path))


def read_queue_rules(document: Mapping[str, object], warn: Warn) -> dict[str, UseRule]:
    """Return the rules of a policy by the names of their queues. Raise PolicyError, which names the path."""
    found: dict[str, UseRule] = {}
    for index, entry in enumerate(items_at(document.get("queues"), "queues")):
        path = f"queues[{index}]"
        given = object_at(entry, path)
        name = text_at(given.get("name"), f"{path}.name")
        if problem := object_name_problem(name) or ("" if name else "is empty"):
            raise PolicyError(f"{path}.name: {problem}")
        if name in found:
            raise PolicyError(f"{path}.name: queue {name} is named twice")
        for key in given:
            if key != "name" and key not in KEYS:
                warn(f"{path}.{key}", "muster does not know this key")
        found[name] = read_use_rule(given, path)
    return found
