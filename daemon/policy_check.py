"""What a policy must state before a cluster is scheduled by it.

Only where a daemon takes a policy: at its start and when the file changes. A fold, a replay, a scenario and what-if take
every policy that parses, because logs hold such policies.
"""

from typing import Final

import msgspec

from events.errors import PolicyError
from events.normalize import JsonObject
from events.policy_document import CONFIG_MAP_KEYS
from features.table import FEATURES
from projections.policy.policy import Policy, PolicyWarning, parse_policy

PLAIN: Final = "plain"
"""The name of the policy without quotas, in place of a file."""

_NAMING_KEYS: Final = ("actions", "tiers", "pools")
"""A document with none of these is no policy."""
_SHOWN_KEYS: Final = 5


def check_cluster_policy(content: bytes, source: str) -> None:
    """Raise PolicyError unless the document is a policy that keeps quotas or says that there are none.

    `content` is a policy as JSON that parses; `source` names its file.
    """
    document: JsonObject = msgspec.json.decode(content, type=dict)
    if not any(key in document for key in _NAMING_KEYS):
        raise PolicyError(f"{source}: {_description(document)}")
    policy, warnings = parse_policy(content, FEATURES.policy_table)
    _check_quotas(policy, document, warnings, source)


def _description(document: JsonObject) -> str:
    """Return what a document is that is not a policy."""
    kind = document.get("kind")
    if kind == "ConfigMap":
        data = document.get("data")
        named = ", ".join(data) if isinstance(data, dict) and data else "none"
        return (
            f"a ConfigMap without a policy: it must be under data.{CONFIG_MAP_KEYS[0]}; "
            f"the keys of data are: {named}"
        )
    if isinstance(kind, str):
        what = f"a manifest of kind {kind}"
    elif not document:
        what = "an empty document"
    else:
        keys = list(document)
        more = ", ..." if len(keys) > _SHOWN_KEYS else ""
        what = f"a document with the keys {', '.join(keys[:_SHOWN_KEYS])}{more}"
    return f"{what} is not a policy: it has neither actions nor tiers"


def _check_quotas(
    policy: Policy, document: JsonObject, warnings: tuple[PolicyWarning, ...], source: str
) -> None:
    named = [
        one.name for one in policy.plugins if FEATURES.policy_table.plugins[one.name].keeps_quotas
    ]
    has_none = document.get("quotas") == "none"
    if named and has_none:
        raise PolicyError(f"{source}: quotas: none contradicts the plugin {named[0]}")
    if named or has_none:
        return
    known = sorted(name for name, one in FEATURES.policy_table.plugins.items() if one.keeps_quotas)
    skipped = [one.unknown_plugin for one in warnings if one.unknown_plugin]
    unknown = f"; not known here: {', '.join(skipped)}" if skipped else ""
    raise PolicyError(
        f"{source}: no plugin keeps quotas, so that every queue would be unlimited{unknown}. "
        f"Name one of {', '.join(known)}, or write `quotas: none`, or give --policy {PLAIN}"
    )
