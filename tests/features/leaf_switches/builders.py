"""Leaf switches with some free servers, and maps of them."""

from collections.abc import Mapping, Sequence

import msgspec

from features.leaf_switches.index import SwitchState
from features.leaf_switches.plan import FreeSwitch
from tests.scheduling.builders import raw

IDLE = SwitchState()


def switches(
    free: Mapping[str, int | Sequence[int]], states: Mapping[str, SwitchState] | None = None
) -> list[FreeSwitch]:
    """Switches by name, each with its free positions, or with so many of the first."""
    found: list[FreeSwitch] = []
    for name, given in free.items():
        positions = range(given) if isinstance(given, int) else given
        servers = tuple((at, f"{name}.{at}") for at in positions)
        found.append(FreeSwitch(name, servers, (states or {}).get(name, IDLE)))
    return found


def switch_map(
    servers: Sequence[Sequence[str]], count: int, *, level: str = "", **fields: object
) -> bytes:
    """The ConfigMap with these addresses under each switch."""
    listed = [
        {
            "tor_id": number,
            "tor_ip": f"switch-{number}",
            "server": [
                {"server_ip": address, "npu_count": 8, "slice_id": at}
                for at, address in enumerate(addresses)
            ],
        }
        for number, addresses in enumerate(servers)
    ]
    return map_of({"version": "1.0", "tor_count": count, "server_list": listed}, level, **fields)


def map_of(info: object, level: str = "", **fields: object) -> bytes:
    """The ConfigMap with this map."""
    text = info if isinstance(info, str) else msgspec.json.encode(info).decode()
    data = {"tor_info": text, **({"tor_level": level} if level else {}), **fields}
    metadata = {"namespace": "kube-system"}
    return raw("ConfigMap", "basic-tor-node-cm", metadata=metadata, data=data)
