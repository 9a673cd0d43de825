"""Faults that are drawn from rates: which of the things of a cluster break, when, and for how long.

For each class of faults the gaps between them are exponential, and each hits a unit with a probability in proportion to its
weight (nodes that fail more often have a larger one). Of faults of cards, one in eight comes again within a day, and 7 % within
some weeks, exponentially with a median of 16 days.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from events.duration import SECOND
from events.errors import DocumentError
from simulator.fault_rates import (
    CARD_FATAL,
    CARD_RECOVERABLE,
    CARD_SLOW,
    CLASSES,
    DAY,
    FALSE_ALARM,
    LINK_DOWN,
    NODE_STOP,
    SWITCH_DOWN,
    FaultClass,
    FaultRates,
)
from simulator.fault_steps import (
    CHIP,
    CONDITION,
    DEVICE,
    HOSTS,
    LINK,
    NETWORK,
    NODE,
    SWITCH,
    FaultPlace,
    RaiseFault,
)
from simulator.manifest import LocatedManifest, Manifest
from simulator.manifest_fields import amounts, section
from simulator.network_domains import MAP_KEY, leaf_switches
from simulator.node_chips import chips_of
from simulator.random_sequence import RandomSequence, WeightedChoice

FAULTS_MAX: Final = 100_000
"""Maximum faults of a scenario."""

CARDS: Final = ("/gpu", "/npu")
"""Ends of the names of resources that count cards, where the scenario names none."""

CRASHED: Final = 1
"""Exit code of the containers of a pod that has a card which breaks."""

_REPEATS: Final = ((125, DAY), (70, None))
"""Of 1,000 faults of cards, so many come again: within a day, and (None) within weeks."""
_WEEKS: Final = Decimal(16 * DAY) / Decimal("0.6931471805599453")
"""Mean of an exponential distribution with a median of 16 days."""
_CARD: Final = "card"
_LEVELS: Final = {
    CARD_FATAL: "SeparateNPU",
    CARD_RECOVERABLE: "RestartNPU",
    CARD_SLOW: "SubHealthFault",
    FALSE_ALARM: "RestartRequest",
}
"""Class to the level with which the device plugin of an Ascend node reports it."""


class _Unit(NamedTuple):
    """Something that breaks."""

    name: str
    """The node or switch."""
    part: str = ""
    """The card; empty for all else."""


def fault_steps(
    rates: FaultRates, cluster: tuple[LocatedManifest, ...], until_ns: int
) -> tuple[RaiseFault, ...]:
    """Return the faults of a cluster up to a time, by time. Raises DocumentError if there are too many."""
    units = _units(rates, cluster)
    steps: list[RaiseFault] = []
    for name, one in CLASSES.items():
        of_class = units[_CARD if name == FALSE_ALARM else one.unit]
        weights = [_weight(rates, unit.name) for unit in of_class]
        if not of_class or not rates.rates[name]:
            continue
        count = len(of_class) if one.unit != NODE else len(units[NODE])
        share = Decimal(sum(weights)) / len(of_class) * count
        mean = Decimal(1000 * one.period_ns) / (rates.rates[name] * share)
        chance = RandomSequence(f"faults/{rates.seed}/{name}")
        choice = WeightedChoice(zip(of_class, weights, strict=True))
        at_ns = rates.after_ns + chance.exponential(mean)
        while at_ns <= until_ns:
            steps += _events(rates, name, one, choice.turn(chance), at_ns, chance)
            if len(steps) > FAULTS_MAX:
                raise DocumentError(f"{rates.place}: faults: more than {FAULTS_MAX:,} faults")
            at_ns += chance.exponential(mean)
    kept = [step for step in steps if step.at_ns <= until_ns]
    return tuple(sorted(kept, key=lambda step: step.at_ns))


def _units(rates: FaultRates, cluster: tuple[LocatedManifest, ...]) -> dict[str, list[_Unit]]:
    """Return what can break, by kind. Each card has a link of its own; switches are the leaf switches."""
    nodes: list[_Unit] = []
    cards: list[_Unit] = []
    switches: list[_Unit] = []
    for placed in cluster:
        if placed.kind.kind == "Node":
            nodes.append(_Unit(placed.name))
            cards += [_Unit(placed.name, card) for card in _cards(rates, placed.manifest)]
        elif placed.kind.kind == "HyperNode" and _tier(placed.manifest) == 1:
            switches.append(_Unit(placed.name))
        elif (placed.kind.kind, placed.namespace, placed.name) == MAP_KEY:
            switches += [_Unit(name) for name in leaf_switches(placed.manifest)]
    found = {NODE: nodes, _CARD: cards, LINK: cards, SWITCH: switches}
    # In an order that does not depend on that of the objects, each once.
    return {kind: sorted(set(units)) for kind, units in found.items()}


def _cards(rates: FaultRates, node: Manifest) -> Iterator[str]:
    """Yield the cards of a node: chips by name, counted ones by resource and index."""
    chips = chips_of(node)
    if chips:
        yield from chips
        return
    status = section(node, "status")
    for resource, count in amounts(
        section(status, "capacity") or section(status, "allocatable")
    ).items():
        is_card = resource in rates.cards if rates.cards else resource.endswith(CARDS)
        if is_card:
            yield from (f"{resource}/{index}" for index in range(count))


def _tier(hyper_node: Manifest) -> int:
    spec = hyper_node.get("spec")
    tier = spec.get("tier") if isinstance(spec, dict) else None
    return tier if isinstance(tier, int) else 0


def _weight(rates: FaultRates, node: str) -> int:
    is_lemon = (
        RandomSequence(f"faults/{rates.seed}/lemon/{node}").below(1000) < rates.lemon_permille
    )
    return rates.lemon_factor if is_lemon else 1


def _events(
    rates: FaultRates, name: str, one: FaultClass, unit: _Unit, at_ns: int, chance: RandomSequence
) -> Iterator[RaiseFault]:
    """Yield what happens to a unit: a fault, and those of it that come again."""
    if name == LINK_DOWN and chance.below(100) < rates.flapping_percent:
        yield from _flaps(rates, name, unit, at_ns, chance)
        return
    yield from _steps(rates, name, unit, at_ns, _duration(one, chance), _detection(one, chance))
    if name not in (CARD_FATAL, CARD_RECOVERABLE):
        return
    for some, within_ns in _REPEATS:
        if chance.below(1000) >= some:
            continue
        later = chance.exponential(_WEEKS) if within_ns is None else chance.below(within_ns)
        again = at_ns + SECOND + later
        yield from _steps(rates, name, unit, again, _duration(one, chance), _detection(one, chance))


def _flaps(
    rates: FaultRates, name: str, unit: _Unit, at_ns: int, chance: RandomSequence
) -> Iterator[RaiseFault]:
    """Yield a link that goes down 3 to 10 times, for 0.5 to 3 s each, seen at once."""
    for _ in range(chance.between(3, 10)):
        down_ns = chance.between(SECOND // 2, 3 * SECOND)
        yield from _steps(rates, name, unit, at_ns, down_ns, 0)
        at_ns += down_ns + chance.between(SECOND // 2, 3 * SECOND)


def _steps(
    rates: FaultRates, name: str, unit: _Unit, at_ns: int, duration_ns: int, detection_ns: int
) -> Iterator[RaiseFault]:
    """Yield the fault of a unit, and the condition that shows it if the scenario wants one."""
    is_chip = bool(unit.part) and "/" not in unit.part
    step = RaiseFault(at_ns, FaultPlace(NODE, unit.name), duration_ns, detection_ns)
    code = CRASHED if name in (CARD_FATAL, CARD_RECOVERABLE) else None
    set_ = msgspec.structs.replace
    if name == NODE_STOP:
        yield step
    elif name == SWITCH_DOWN:
        yield set_(step, place=FaultPlace(SWITCH, unit.name), kind=HOSTS)
    elif is_chip:
        kind = NETWORK if name == LINK_DOWN else CHIP
        level = _LEVELS.get(name, "NotHandleFault")
        yield set_(
            step,
            place=FaultPlace(DEVICE, unit.name, unit.part),
            kind=kind,
            level=level,
            exit_code=code,
        )
    elif name == LINK_DOWN:
        yield set_(step, place=FaultPlace(LINK, unit.name), condition="NetworkUnavailable")
    elif name != CARD_SLOW:
        yield set_(step, place=FaultPlace(DEVICE, unit.name, unit.part), exit_code=code)
        if rates.card_condition and duration_ns > detection_ns:
            place = FaultPlace(CONDITION, unit.name, rates.card_condition)
            yield set_(
                step,
                at_ns=at_ns + detection_ns,
                place=place,
                duration_ns=duration_ns - detection_ns,
                detection_ns=0,
                condition="True",
            )


def _duration(one: FaultClass, chance: RandomSequence) -> int:
    low, high = WeightedChoice(((low, high), part) for part, low, high in one.durations).turn(
        chance
    )
    return chance.between(low, high)


def _detection(one: FaultClass, chance: RandomSequence) -> int:
    return chance.between(*one.detection)
