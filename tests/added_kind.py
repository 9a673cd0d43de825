"""Run `muster` with one more observed kind in the table: `python -m tests.added_kind COMMAND...`.

With `tables`, print what follows from the table: calls, rules of roles, and the paths that the simulated API server
serves.
"""

import json
import sys

from msgspec import Struct

from projections.api_resource import Resource
from projections.kind_table import KINDS
from projections.objects import FewQuantities, Metadata, read
from projections.observed_kind import ObservedKind

RESOURCE_QUOTAS = Resource(
    "ResourceQuota", "resourcequotas", short_names=("quota",), has_generation=False
)


class _Spec(Struct, frozen=True):
    hard: FewQuantities = {}


class _ResourceQuota(Struct):
    metadata: Metadata
    spec: _Spec = _Spec()


def _summarize(content: bytes) -> list[str]:
    quota = read(_ResourceQuota, content)
    if isinstance(quota, str):
        return [quota]
    return [f"at most {amount} {name}" for name, amount in quota.spec.hard.items()]


def tables() -> dict[str, object]:
    """What follows from the table of kinds, as far as the added kind is concerned."""
    from daemon.cli.kinds import kinds_named
    from daemon.cluster.client.calls import CALLS
    from daemon.cluster.client.rbac import cluster_rules
    from simulator.api_server.served_resources import ResourceCatalogue

    served = ResourceCatalogue().find("", "v1", RESOURCE_QUOTAS.plural)
    return {
        "calls": [one.what for one in CALLS if one.resource == RESOURCE_QUOTAS],
        "rules": [one.verbs for one in cluster_rules() if RESOURCE_QUOTAS.plural in one.resources],
        "redacted": kinds_named("quota"),
        "served": None if served is None else served.short_names,
    }


if __name__ == "__main__":
    # Before any table that follows from this one is imported.
    KINDS["ResourceQuota"] = ObservedKind(
        resource=RESOURCE_QUOTAS, why="quotas of namespaces", summarize=_summarize
    )
    if sys.argv[1:] == ["tables"]:
        sys.stdout.write(json.dumps(tables()))
    else:
        from daemon.cli.app import main

        main()
