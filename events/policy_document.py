"""The policy in a YAML file: the document itself, or what a ConfigMap holds, as Volcano's scheduler is configured."""

from typing import Final

from events.errors import DocumentError
from events.normalize import Json
from events.yaml_document import NODES_MAX, YamlValue, read_document

CONFIG_MAP_KEYS: Final = ("volcano-scheduler.conf", "policy.yaml")
"""The keys of Volcano's ConfigMap and of muster's own."""
_POLICY_KEYS: Final = frozenset({"actions", "tiers", "pools"})


def read_policy_document(text: str, source: str, nodes_max: int = NODES_MAX) -> dict[str, Json]:
    """Read a policy: YAML or JSON, or a ConfigMap with the policy as the text of a key.

    A ConfigMap without a policy is returned as it is. Errors name the file, the key and the line.
    """
    document = read_document(text, source, nodes_max)
    entries = document.mapping("a policy")
    if _is_config_map(entries):
        found = _policy_of_config_map(entries, source, nodes_max)
        if found is not None:
            return found
    return {name: entry.plain() for name, entry in entries.items()}


def _is_config_map(entries: dict[str, YamlValue]) -> bool:
    kind = entries.get("kind")
    return kind is not None and kind.is_scalar and kind.plain() == "ConfigMap"


def _policy_of_config_map(
    entries: dict[str, YamlValue], source: str, nodes_max: int
) -> dict[str, Json] | None:
    """Return the policy under a key that is named for it, or else under the only key that holds one."""
    if "data" not in entries or not entries["data"].is_mapping:
        return None
    values = entries["data"].mapping("data")
    texts = {name: value.scalar(f"data.{name}") for name, value in values.items()}
    for name in CONFIG_MAP_KEYS:
        if name in texts:
            policy = read_document(texts[name], f"{source}: data.{name}", nodes_max)
            read = policy.mapping("a policy")
            return {key: value.plain() for key, value in read.items()}
    others = [
        found
        for name, text in texts.items()
        if (found := _policy_in(text, f"{source}: data.{name}", nodes_max)) is not None
    ]
    return others[0] if len(others) == 1 else None


def _policy_in(text: str, source: str, nodes_max: int) -> dict[str, Json] | None:
    """Return the policy in a text, or None for any other text."""
    try:
        document = read_document(text, source, nodes_max)
        if not document.is_mapping:
            return None
        entries = document.mapping("a policy")
    except DocumentError:
        return None
    if _POLICY_KEYS.isdisjoint(entries):
        return None
    return {key: value.plain() for key, value in entries.items()}
