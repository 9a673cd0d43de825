"""What changed between two observations of a node or queue, in words."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from events.amount_text import amount_text
from projections.devices import Device
from projections.nodes import NodeFacts
from projections.queues import QueueFacts


class FactChange(Struct, frozen=True):
    """One change, and the names that it is about: resources, cards and devices."""

    text: str
    about: tuple[str, ...] = ()


def node_changes(old: NodeFacts | None, new: NodeFacts | None) -> list[FactChange]:
    """Return what changed of a node that the scheduler reads; nothing for one that came or is gone."""
    if old is None or new is None or old is new:
        return []
    return list(_node_changes(old, new))


def _node_changes(old: NodeFacts, new: NodeFacts) -> Iterator[FactChange]:
    if old.unschedulable != new.unschedulable:
        yield FactChange("cordoned" if new.unschedulable else "uncordoned")
    before = {f"{one.type} {one.status}": one.reason for one in old.conditions}
    after = {f"{one.type} {one.status}": one.reason for one in new.conditions}
    for text, reason in after.items():
        if before.get(text) != reason:
            yield FactChange(f"condition {text}" + (f" ({reason})" if reason else ""))
    types = [one.type for one in new.conditions]
    for one in old.conditions:
        if one.type not in types:
            yield FactChange(f"condition {one.type} is normal again")
    taints = [_taint(one.key, one.value, one.effect) for one in old.taints]
    taints_now = [_taint(one.key, one.value, one.effect) for one in new.taints]
    yield from (FactChange(f"taint {one} added") for one in taints_now if one not in taints)
    yield from (FactChange(f"taint {one} removed") for one in taints if one not in taints_now)
    cards = {**old.charged_cards, **new.charged_cards}
    allocatable = list(_amount_changes(old.allocatable, new.allocatable))
    amounts = [("allocatable", *one) for one in allocatable]
    for name, text in _amount_changes(old.capacity, new.capacity):
        if (name, text) not in allocatable:
            amounts.append(("capacity", name, text))
    for what, name, text in amounts:
        yield FactChange(f"{what} {text}", tuple(filter(None, (name, cards.get(name, "")))))
    for name, card in new.cards.items():
        if (had := old.cards.get(name, "")) != card:
            yield FactChange(f"card of {name} {had or 'none'} -> {card}", (name, had, card))
    yield from _device_changes(old, new)
    labels = (
        FactChange(f"label {text}", (name,)) for name, text in _text_changes(old.labels, new.labels)
    )
    yield from labels
    yield from (
        FactChange(f"{code}: {text}") for code, text in new.faults if (code, text) not in old.faults
    )


def _device_changes(old: NodeFacts, new: NodeFacts) -> Iterator[FactChange]:
    was = {one.name: one for found in old.devices.values() for one in found.devices}
    for resource, found in new.devices.items():
        for one in found.devices:
            before, about = was.pop(one.name, None), (one.name, resource, found.card)
            if before is None:
                yield FactChange(f"device {one.name} is seen: {_health(one)}", about)
            elif _health(before) != _health(one):
                yield FactChange(f"device {one.name}: {_health(before)} -> {_health(one)}", about)
    yield from (FactChange(f"device {name} is gone", (name,)) for name in was)


def _health(device: Device) -> str:
    """Return the health of a device, with its faults."""
    if device.is_recovering:
        state = "recovering"
    elif not device.is_healthy:
        state = "faulty"
    elif not device.is_network_healthy:
        state = "network faulty"
    else:
        state = "healthy"
    return f"{state} ({', '.join(device.faults)})" if device.faults else state


def queue_changes(old: QueueFacts | None, new: QueueFacts | None) -> list[str]:
    """Return what changed of a queue that the scheduler reads; nothing for one that came or is gone."""
    if old is None or new is None or old is new:
        return []
    return list(_queue_changes(old, new))


def queue_limits(facts: QueueFacts) -> str:
    """Return the amounts of a queue in one line; empty if it states none."""
    parts = [
        f"{what} {', '.join(f'{name} {amount_text(name, one)}' for name, one in amounts.items())}"
        for what, amounts in _limits(facts)
        if amounts
    ]
    return "; ".join(parts)


def _limits(facts: QueueFacts) -> tuple[tuple[str, Mapping[str, int]], ...]:
    return (
        ("capability", facts.capability),
        ("deserved", facts.deserved),
        ("guarantee", facts.guarantee),
        ("card quota", facts.quota),
    )


def _queue_changes(old: QueueFacts, new: QueueFacts) -> Iterator[str]:
    for (what, was), (_, now) in zip(_limits(old), _limits(new), strict=True):
        yield from (f"{what} {text}" for _, text in _amount_changes(was, now))
    plain: tuple[tuple[str, object, object], ...] = (
        ("weight", old.weight, new.weight),
        ("priority", old.priority, new.priority),
        ("parent", old.parent or "none", new.parent or "none"),
        ("reclaimable", old.is_reclaimable, new.is_reclaimable),
        ("state", _state(old), _state(new)),
    )
    yield from (f"{what} {_text(was)} -> {_text(now)}" for what, was, now in plain if was != now)
    yield from (f"{code}: {text}" for code, text in new.faults if (code, text) not in old.faults)


def _state(facts: QueueFacts) -> str:
    return "open" if facts.is_open else "closed"


def _text(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, "") if isinstance(value, bool) else str(value)


def _taint(key: str, value: str | None, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _amount_changes(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each amount that changed."""
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was != now:
            yield name, f"{name} {_amount(name, was)} -> {_amount(name, now)}"


def _amount(name: str, amount: int | None) -> str:
    return "none" if amount is None else amount_text(name, amount)


def _text_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was != now:
            yield (
                name,
                f"{name} {'none' if was is None else was} -> {'none' if now is None else now}",
            )
