"""Hosts below a switch of the simulated cluster: by the map of leaf switches, or by a HyperNode."""

from collections.abc import Mapping
from typing import Final

import msgspec

from features.leaf_switches.switch_map import SWITCH_MAP, read_switch_map
from projections.hyper_nodes import HyperNodeObject, hyper_node_facts
from projections.hyper_tree import HyperTree
from projections.objects import read
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, name_of, section, text_at
from simulator.object_store import Key

MAP_KEY: Final[Key] = ("ConfigMap", SWITCH_MAP.namespace, SWITCH_MAP.only)
"""The ConfigMap with the leaf switches."""


def hosts_below(objects: Mapping[str, Mapping[Key, Manifest]], switch: str) -> list[str]:
    """Return the nodes under a leaf switch of this name, else below a HyperNode of this name; sorted."""
    nodes = objects.get("Node", {})
    found = objects.get("ConfigMap", {}).get(MAP_KEY)
    addresses = leaf_switches(found).get(switch)
    if addresses is not None:
        below = [name_of(node) for node in nodes.values() if _address(node) in addresses]
        return sorted(below)
    tree = HyperTree()
    known = [(key[2], _labels(node)) for key, node in nodes.items()]
    for manifest in objects.get("HyperNode", {}).values():
        obj = read(HyperNodeObject, msgspec.json.encode(manifest))
        if not isinstance(obj, str):
            tree.put(hyper_node_facts(obj), known)
    return sorted({name for name in tree.below(switch) if ("Node", "", name) in nodes})


def leaf_switches(config_map: Manifest | None) -> dict[str, dict[str, None]]:
    """Return the leaf switches of the map, each with the addresses of its servers; nothing if it cannot be read."""
    if config_map is None:
        return {}
    found = read_switch_map(msgspec.json.encode(config_map))
    if isinstance(found, str):
        return {}
    return {one.name: {server.address: None for server in one.servers} for one in found.switches}


def _labels(node: Manifest) -> dict[str, str]:
    labels = section(node, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _address(node: Manifest) -> str:
    for one in list_at(section(node, "status"), "addresses"):
        if one.get("type") == "InternalIP":
            return text_at(one, "address")
    return ""
