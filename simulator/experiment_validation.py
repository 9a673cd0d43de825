"""Validation of experiments, a kind of the simulator only: unknown keys of their spec are errors."""

from collections.abc import Mapping
from typing import Final

from events.yaml_document import YamlValue

_WHOLE: Final = {
    **dict.fromkeys(("trials", "podsPerTrial"), 1),
    **dict.fromkeys(("maxConcurrentTrials", "slotsPerTrial"), 0),
    **dict.fromkeys(("priority", "maxSlots", "maxRestarts"), 0),
}
"""Whole numbers, and the least that each may be."""
_TIMES: Final = ("workSlotSeconds", "checkpointEverySeconds", "checkpointSeconds")
_TEXTS: Final = ("pool", "resource")
_MAPPINGS: Final = ("labels", "annotations")
_KEYS: Final = (*_WHOLE, *_TIMES, "weight", *_TEXTS, *_MAPPINGS)


def check_experiment(value: YamlValue, fields: Mapping[str, YamlValue]) -> None:
    """Check what only a whole experiment can be checked for."""
    spec = _spec(fields)
    slots = spec["slotsPerTrial"].whole("slotsPerTrial") if "slotsPerTrial" in spec else 1
    pods = spec["podsPerTrial"].whole("podsPerTrial", 1) if "podsPerTrial" in spec else 1
    if slots % pods:
        raise spec["podsPerTrial"].error(
            f"podsPerTrial: {slots} slots of a trial cannot be divided by {pods} pods"
        )


def check_experiment_patch(fields: Mapping[str, YamlValue]) -> None:
    """Check the values of an experiment, or of a patch of one, in which null removes a value."""
    for name, value in _spec(fields).items():
        if name in _WHOLE:
            value.whole(name, _WHOLE[name])
        elif name in _TIMES:
            check_seconds(name, value)
            if name == "checkpointEverySeconds" and value.time_ns(name) == 0:
                raise value.error(f"{name} must be longer than nothing")
        elif name == "weight":
            if not _is_number(value.scalar(name)):
                raise value.error(f"weight: {value.scalar(name)!r} is not a number")
        elif name in _TEXTS:
            value.text(name)
        else:
            for key, entry in value.mapping(name).items():
                entry.scalar(f"{name}.{key}")


def check_seconds(name: str, value: YamlValue) -> None:
    """Check a number of seconds (or of slot-seconds), which may have decimals."""
    if not _is_number(value.scalar(name)):
        raise value.error(f"{name}: {value.scalar(name)!r} is not a number of seconds")
    value.time_ns(name)


def _is_number(text: str) -> bool:
    return text.isascii() and text.replace(".", "", 1).isdecimal()


def _spec(fields: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
    """Return the values of the spec that are not null."""
    if "spec" not in fields or fields["spec"].is_null:
        return {}
    spec = fields["spec"].fields("spec of an Experiment", _KEYS)
    return {name: value for name, value in spec.items() if not value.is_null}
