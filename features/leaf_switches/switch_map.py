"""The map of leaf switches (ToR): which servers are under which switch, and at which position.

An operator writes it into the ConfigMap `basic-tor-node-cm` of the namespace `kube-system`:

    tor_info:   {"version": "1.0", "tor_count": 4, "server_list": [{"tor_id": 0, "tor_ip": "1.0.0.0",
                  "server": [{"server_ip": "1.1.0.0", "npu_count": 8, "slice_id": 0}]}]}
    tor_level:  `single_layer` if the switches are not connected to each other by a second layer

`tor_count` is the number of servers of a switch, not that of switches. A server is a node by its InternalIP; `slice_id` is
its position. A text that cannot be read is no map: the previous one stands, with an error.
"""

from collections import Counter
from typing import Final

import msgspec
from msgspec import Struct

from events.limits import INT32_MAX, clipped, decode_text, name_problem, quoted
from events.normalize_config_map import Selection
from projections.objects import Metadata

SWITCHES_KEY: Final = "tor_info"
LEVEL_KEY: Final = "tor_level"
SWITCH_MAP: Final = Selection(
    "switch-map", "kube-system", only="basic-tor-node-cm", keys=(SWITCHES_KEY, LEVEL_KEY)
)
"""The ConfigMap with the map, and its keys."""

SWITCHES_MAX: Final = 20_000
"""Maximum switches of a map. A ConfigMap holds 1 MiB."""

ERRORS_MAX: Final = 16
"""Maximum errors of a map that are kept."""

INVALID_MAP: Final = "InvalidSwitchMap"
"""Code of an error in the map."""

SINGLE_LAYER: Final = "single_layer"

Errors = tuple[tuple[str, str], ...]


class Server(Struct, frozen=True, array_like=True, gc=False):
    """A server under a switch."""

    address: str
    position: int


class LeafSwitch(Struct, frozen=True, array_like=True):
    """A leaf switch and its servers, sorted by position."""

    name: str
    """Its address, or its number if the map states no address."""
    servers: tuple[Server, ...]
    is_shared: int = 0
    """0: idle, 1: shared, 2: exclusive, as long as no job is on it."""
    is_unhealthy: bool = False


class SwitchMap(Struct, frozen=True):
    """The leaf switches of a cluster."""

    switches: tuple[LeafSwitch, ...] = ()
    servers_per_switch: int = 0
    """Number of servers of a whole switch (`tor_count`)."""
    is_single_layer: bool = False
    errors: Errors = ()
    """Code and message."""


class _Server(Struct):
    server_ip: str = ""
    slice_id: object = None


class _Switch(Struct):
    tor_id: object = None
    tor_ip: str = ""
    server: list[_Server] | None = None
    IsSharedTor: object = None
    IsHealthy: object = None


class _Info(Struct):
    tor_count: object = None
    server_list: list[_Switch] | None = None


class _ConfigMap(Struct):
    metadata: Metadata
    data: dict[str, str] | None = None


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)
_INFO: Final = msgspec.json.Decoder(_Info)


def read_switch_map(content: bytes) -> SwitchMap | str:
    """Return the map of a ConfigMap, or why it cannot be used."""
    try:
        data = _CONFIG_MAP.decode(content).data or {}
    except msgspec.DecodeError as error:
        return str(error)
    if SWITCHES_KEY not in data:
        return f"data has no {SWITCHES_KEY}"
    try:
        info = decode_text(data[SWITCHES_KEY], _INFO.decode)
    except ValueError as error:
        return clipped(f"{SWITCHES_KEY}: {error}")
    listed = info.server_list or []
    if len(listed) > SWITCHES_MAX:
        return f"{SWITCHES_KEY}: {len(listed)} switches, more than {SWITCHES_MAX}"
    errors: list[str] = []
    twice = _listed_twice(listed, errors)
    switches: dict[str, LeafSwitch] = {}
    for index, one in enumerate(listed):
        name = one.tor_ip or str(index if one.tor_id is None else one.tor_id)
        if problem := name_problem(name):
            errors.append(f"switch {index}: {problem}: it is left out")
        elif name in switches:
            errors.append(f"switch {name} is listed twice: the second one is left out")
        else:
            switches[name] = _switch(name, one, twice, errors)
    longest = max((len(one.servers) for one in switches.values()), default=0)
    count = _number(info.tor_count)
    if count is None or count < longest:
        text = f"tor_count is {quoted(info.tor_count)}, and a switch has {longest} servers"
        errors.append(f"{text}: it counts as {longest}")
        count = longest
    level = data.get(LEVEL_KEY, "")
    return SwitchMap(tuple(switches.values()), count, level == SINGLE_LAYER, _bounded(errors))


def _listed_twice(listed: list[_Switch], errors: list[str]) -> dict[str, None]:
    """Return the addresses of servers that are listed more than once."""
    times = Counter(server.server_ip for one in listed for server in one.server or ())
    twice = [address for address, count in times.items() if count > 1 and address]
    errors += [
        f"server {quoted(one)} is listed {times[one]} times: it has no place" for one in twice
    ]
    return dict.fromkeys(twice)


def _switch(name: str, one: _Switch, twice: dict[str, None], errors: list[str]) -> LeafSwitch:
    """Return a switch. Positions that cannot be used, or repeat, are those of the servers in the list."""
    servers = one.server or []
    positions = [_number(server.slice_id) for server in servers]
    whole = [at for at in positions if at is not None]
    if len({*whole}) < len(servers):
        if servers:
            text = "slice_id is missing, repeats or is no position"
            errors.append(f"switch {name}: {text}: the positions are those in the list")
        whole = list(range(len(servers)))
    placed = [
        Server(server.server_ip, at)
        for server, at in zip(servers, whole, strict=True)
        if server.server_ip not in twice and not name_problem(server.server_ip)
    ]
    return LeafSwitch(
        name=name,
        servers=tuple(sorted(placed, key=lambda server: server.position)),
        is_shared=one.IsSharedTor if one.IsSharedTor in (1, 2) else 0,
        is_unhealthy=one.IsHealthy == 1,
    )


def _number(value: object) -> int | None:
    """Return a whole number of 31 bits, or None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= INT32_MAX else None


def _bounded(errors: list[str]) -> Errors:
    kept = errors[:ERRORS_MAX]
    if len(errors) > ERRORS_MAX:
        kept.append(f"and {len(errors) - ERRORS_MAX} more errors")
    return tuple((INVALID_MAP, clipped(text)) for text in kept)
