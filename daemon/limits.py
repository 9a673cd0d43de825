"""How much of an input is read: files that come from elsewhere end in one line, not in all memory.

`MUSTER_LIMITS=bundle-bytes=1TiB,yaml-nodes=10000000` sets other bounds than these. docs/limits.md lists them.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from daemon.environment import ENVIRONMENT
from events.errors import SettingsError, UsageError
from events.yaml_document import NODES_MAX

VARIABLE: Final = "MUSTER_LIMITS"

_MIB: Final = 1 << 20
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": _MIB, "GiB": 1 << 30, "TiB": 1 << 40}
_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,17})([KMGT]iB)?")


RATIO_FROM_BYTES: Final = 64 << 20
"""Unpacked bytes from which on the ratio of a bundle is looked at: a short one may be all alike."""


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds. A name with a hyphen for the underscore is that of the variable."""

    text_bytes: int = 128 * _MIB
    """Bytes of a scenario, policy, manifest, settings or trace file, unpacked where it is gzip."""
    yaml_nodes: int = NODES_MAX
    """Values of a YAML file, those that aliases repeat counted each time. A node takes some 300 bytes."""
    bundle_bytes: int = 64 << 30
    """Bytes of a bundle, unpacked: some 100 million records."""
    bundle_ratio: int = 1_000
    """Unpacked bytes for a packed one, beyond the first 64 MiB. The log of `make demo` has 9."""
    bundle_line_bytes: int = 64 * _MIB
    """Bytes of one line of a bundle: a record, or an object with its quotes escaped."""
    bundle_object_bytes: int = 16 * _MIB
    """Bytes of one object in a bundle. etcd takes none above 1.5 MB unless configured to."""
    bundle_held_bytes: int = 512 * _MIB
    """Bytes of the last 4,096 objects of a bundle, which its reader holds for the records that follow."""


class InputLimitError(UsageError):
    """An input is larger than it may be: it names the file, the bound, and how to raise it."""


def exceeded(place: str, limits: Limits, name: str, what: str) -> InputLimitError:
    """An error to be raised: `what` says which size was found to be larger than the bound `name`."""
    most: int = getattr(limits, name)
    option = name.replace("_", "-")
    return InputLimitError(f"{place}: {what} than {most:,}; {VARIABLE}={option}=... allows more")


def limits_of(environment: Mapping[str, str] = ENVIRONMENT) -> Limits:
    """The bounds that hold, those of MUSTER_LIMITS before the built-in ones."""
    given: dict[str, int] = {}
    for item in filter(None, environment.get(VARIABLE, "").split(",")):
        name, _, amount = (part.strip() for part in item.partition("="))
        field, found = name.replace("-", "_"), _AMOUNT.fullmatch(amount)
        if field not in Limits.__struct_fields__:
            known = ", ".join(one.replace("_", "-") for one in Limits.__struct_fields__)
            raise SettingsError(f"{VARIABLE}: there is no limit {name!r}; there are {known}")
        if found is None:
            raise SettingsError(
                f"{VARIABLE}: {name}: {amount!r} is no amount such as 500000 or 2GiB"
            )
        given[field] = int(found[1]) * _UNITS[found[2] or ""]
    return msgspec.convert(given, Limits)
