"""Run `muster` with one more observed kind in the table: `python -m tests.added_kind COMMAND...`.

With `tables`, print what follows from the table: calls, rules of roles, and the paths that the simulated API server
serves.
"""

import json
import sys

from msgspec import Struct

from features.table import KINDS
from projections.api_resource import Resource
from projections.objects import FewQuantities, Metadata, read
from projections.observed_kind import ObservedKind

TEAM_LIMITS = Resource("TeamLimit", "teamlimits", short_names=("tl",), has_generation=False)


class _Spec(Struct, frozen=True):
    hard: FewQuantities = {}


class _TeamLimit(Struct):
    metadata: Metadata
    spec: _Spec = _Spec()


def _summarize(content: bytes) -> list[str]:
    limit = read(_TeamLimit, content)
    if isinstance(limit, str):
        return [limit]
    return [f"at most {amount} {name}" for name, amount in limit.spec.hard.items()]


def tables() -> dict[str, object]:
    """What follows from the table of kinds, as far as the added kind is concerned."""
    from daemon.cli.kinds import kinds_named
    from daemon.cluster.client.calls import CALLS
    from daemon.cluster.client.rbac import cluster_rules
    from simulator.api_server.served_resources import ResourceCatalogue

    served = ResourceCatalogue().find("", "v1", TEAM_LIMITS.plural)
    return {
        "calls": [one.what for one in CALLS if one.resource == TEAM_LIMITS],
        "rules": [one.verbs for one in cluster_rules() if TEAM_LIMITS.plural in one.resources],
        "redacted": kinds_named("tl"),
        "served": None if served is None else served.short_names,
    }


if __name__ == "__main__":
    # Before any table that follows from this one is imported.
    KINDS["TeamLimit"] = ObservedKind(
        resource=TEAM_LIMITS, why="limits of teams", summarize=_summarize
    )
    if sys.argv[1:] == ["tables"]:
        sys.stdout.write(json.dumps(tables()))
    else:
        from daemon.cli.app import main

        main()
