"""Bases for tests: State as records that say what stands, folded again, and compared."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Final

import msgspec

from events.standing.kinds import encode_standing
from features.table import FEATURES
from projections import snapshot
from projections.base.base_table import BaseReader, pieces_of
from projections.feature import FeatureTable
from projections.state import State

BaseRecord = tuple[str, str, bytes, str | None]
"""Kind, subject, body, digest of the object."""

UNORDERED: Final = (
    *("listed", "watched", "newest", "others", "ranks", "owners", "schedulers", "gone_workloads"),
    *("namespaces", "namespace_labels", "priority_classes", "faults", "reported_errors"),
    *("budgets", "object_facts", "last_read", "classes", "next_class", "deserved", "hyper_nodes"),
)


def base_of(state: State, contents: Mapping[str, bytes]) -> list[BaseRecord]:
    """Return the records of what stands. `contents` has all objects by digest."""
    return [
        (one.event.kind, one.subject, encode_standing(one.event), one.object)
        for piece in pieces_of(state)
        for one in piece.stands({digest: contents[digest] for digest in piece.digests})
    ]


def folded(
    records: list[BaseRecord],
    contents: Mapping[str, bytes],
    position: int,
    features: FeatureTable = FEATURES,
) -> State:
    """Return the State of a base."""
    reader = BaseReader(position, features)
    for kind, subject, body, digest in records:
        reader.take(kind, subject, body, digest, None if digest is None else contents[digest])
    return reader.finish()


def facts_of(state: State) -> dict[str, object]:
    """Return what a snapshot holds, in a form that is the same however classes are numbered."""
    image, *parts = [msgspec.msgpack.decode(one) for one in _parts(state)]
    classes = state.cluster.inter_pod_affinity.classes.by_index
    names = {index: _name(state, index) for index in classes}
    found: dict[str, object] = {
        name: _sorted(value) if name in UNORDERED else _ordered(value)
        for name, value in image.items()
        if name not in ("classes", "next_class", "object_facts")
    }
    used = {one.pod_class.index: one.pod_class for one in state.cluster.pods.values()}
    found["classes"] = sorted(
        repr((names[index], msgspec.structs.replace(one, index=0, plain=0)))
        for index, one in used.items()
    )
    for name in ("others", "newest"):
        found[name] = _sorted({kind: one for kind, one in image[name].items() if one})
    found["object_facts"] = {
        kind: _sorted(msgspec.msgpack.decode(one))
        for kind, one in image["object_facts"].items()
        if one != b"\x80"
    }
    found["tables"] = {
        name: _sorted(msgspec.msgpack.decode(one)) for name, one in image["tables"].items()
    }
    found["groups"] = [_ordered(one) for part in parts for one in part[0]]
    pods = [one for part in parts for one in part[1]]
    found["pods"] = [_ordered([one[0], names[one[1]], *one[2:]]) for one in pods]
    return found


def _parts(state: State) -> Iterator[bytes]:
    return snapshot.parts_of(BytesIO(snapshot.take(state)).read)


def _name(state: State, index: int) -> str:
    classes = state.cluster.inter_pod_affinity.classes
    one = classes.by_index[index]
    key = classes.demand_key(one)
    return repr((key, one.plugin_labels, one.closed_tenant, one.selected_as))


def _ordered(value: object) -> object:
    """Return a value with maps as lists, so that their order is compared."""
    if isinstance(value, dict):
        return [(key, _ordered(one)) for key, one in value.items()]
    return [_ordered(one) for one in value] if isinstance(value, list | tuple) else value


def _sorted(value: object) -> object:
    """Return a value with maps, and lists that were maps, in the order of their keys."""
    if isinstance(value, dict):
        return sorted(((key, _sorted(one)) for key, one in value.items()), key=repr)
    return sorted((_sorted(one) for one in value), key=repr) if isinstance(value, list) else value


def differences(before: State, after: State) -> list[str]:
    """Return what differs between the facts of two States, by name."""
    left, right = facts_of(before), facts_of(after)
    return [
        f"{name}: {_first(left.get(name), right.get(name))}"
        for name in left
        if left.get(name) != right.get(name)
    ]


def _first(left: object, right: object) -> str:
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            if one != other:
                return _first(one, other)
    return f"{left!r} became {right!r}"
