"""The change that `muster what-if` asks about: another policy, other steps, and recorded objects that are left out.

Text in, data out, as for scenarios: errors name file, line and reason.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, structs

from events.normalize import Json
from events.yaml_document import NODES_MAX, YamlValue, read_document
from simulator.fault_rates import read_fault_rates
from simulator.fault_timeline import fault_steps
from simulator.manifest import Kind, LocatedManifest, Manifest, read_kind
from simulator.object_store import resource_of
from simulator.scenario import Step, read_policy_value, read_steps
from simulator.what_if_history import ObjectName

_KEYS: Final = ("policy", "policy_file", "steps", "faults", "drop")
_DROP_KEYS: Final = ("kind", "apiVersion", "namespace", "name")


class Dropped(Struct, frozen=True):
    """An object whose recorded changes are left out."""

    name: ObjectName
    place: str
    """`FILE:LINE`"""


class Change(Struct, frozen=True):
    """A change of a recorded past. Times of steps are nanoseconds since the branch begins."""

    policy: dict[str, Json] | None = None
    policy_file: str | None = None
    policy_place: str = ""
    """`FILE:LINE` of the key with the policy or its file; empty without one."""
    steps: tuple[Step, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    def steps_from(self, at_ns: int) -> tuple[Step, ...]:
        """Return the steps of a branch that begins at a time."""
        return tuple(structs.replace(one, at_ns=one.at_ns + at_ns) for one in self.steps)


NO_CHANGE: Final = Change()


def parse_change(
    text: str,
    source: str,
    nodes_max: int = NODES_MAX,
    *,
    objects: Iterable[tuple[Kind, Manifest]] | None = None,
    length_ns: int | None = None,
) -> Change:
    """Parse a change; `source` is the file's name in error messages.

    Steps may name only `objects` and what earlier steps create, unless that is None, and come at most `length_ns`
    after the branch begins.
    """
    document = read_document(text, source, nodes_max)
    fields = document.fields("a change", _KEYS)
    if not fields:
        raise document.error(f"a change must have one of the keys {', '.join(_KEYS)}")
    if "policy" in fields and "policy_file" in fields:
        raise fields["policy_file"].error("policy_file cannot stand beside policy")
    known = None
    if objects is not None:
        known = tuple(LocatedManifest(kind, one, source) for kind, one in objects)
    policy = fields.get("policy", fields.get("policy_file"))
    steps = read_steps(fields["steps"], length_ns, known) if "steps" in fields else ()
    if "faults" in fields:
        rates = read_fault_rates(fields["faults"])
        if known is not None and length_ns is not None:
            drawn = fault_steps(rates, known, length_ns)
            steps = tuple(sorted((*steps, *drawn), key=lambda step: step.at_ns))
    return Change(
        policy=read_policy_value(fields["policy"]) if "policy" in fields else None,
        policy_file=fields["policy_file"].text("policy_file") if "policy_file" in fields else None,
        policy_place="" if policy is None else policy.place,
        steps=steps,
        dropped=tuple(map(_read_drop, fields["drop"].items("drop") if "drop" in fields else ())),
    )


def _read_drop(value: YamlValue) -> Dropped:
    fields = value.fields("drop", _DROP_KEYS)
    kind = read_kind(value, fields)
    if "name" not in fields:
        if "namespace" in fields:
            raise fields["namespace"].error("namespace goes with a name")
        return Dropped((resource_of(kind), "", ""), value.place)
    namespace = ""
    if kind.is_namespaced:
        namespace = fields["namespace"].text("namespace") if "namespace" in fields else "default"
    name: ObjectName = resource_of(kind), namespace, fields["name"].text("name")
    return Dropped(name, value.place)
