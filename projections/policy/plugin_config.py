"""Plugins as a policy names them: their names, flags and arguments.

The hooks that a plugin takes part in are those of `projections/plugin.py` and of the modules of `scheduling/` that call them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from events.errors import PolicyError
from projections.policy.policy_values import JsonObject, Warn, typed

FLAGS_OFF: Final = frozenset({"enableHierarchy", "enabledClusterOrder"})
"""Flags of a plugin that are off by default; all others are on."""


class PluginConfig(Struct, frozen=True):
    """A plugin as the policy names it."""

    name: str
    switched: frozenset[str] = frozenset()
    """Flags that differ from their defaults."""
    arguments: Struct | None = None
    """Its arguments (`Plugin.Arguments`)."""

    def takes_part(self, flag: str) -> bool:
        """Return whether the plugin is enabled for a flag."""
        return (flag in FLAGS_OFF) == (flag in self.switched)


class PolicyPlugin(ABC):
    """What a policy can name: a plugin, without the hooks that it takes part in."""

    name: ClassVar[str]
    """Its name in the policy."""
    name_pattern: ClassVar[str] = ""
    """Regular expression of other names that policies may have for it, such as with a version; "" for none."""
    configuration: ClassVar[str] = ""
    """Name of the entry of `configurations` that holds arguments of it; "" for none."""
    version: ClassVar[str] = ""
    """Version of a plugin that is not part of muster. Cycles record it, and a replay requires the same one."""
    Arguments: ClassVar[type[Struct] | None] = None
    """Its arguments with their defaults, by their names in the policy; None if it has none."""
    NO_EFFECT: ClassVar[Mapping[str, str]] = {}
    """Flags of Volcano that change nothing here, and why."""
    FLAG: ClassVar[str] = ""
    """Of a hook: the flag of the policy that enables it; "" if it is always enabled."""
    pod_labels: ClassVar[tuple[str, ...]] = ()
    """Labels of pods that it reads: pods that differ in one of them are never decided alike."""

    tables: ClassVar[tuple[type[Struct], ...]] = ()
    """Tables of facts that it brings (`projections/tables.py`)."""

    reschedules: ClassVar[bool] = False
    """Whether pods are moved after faults where the policy names the plugin, also without the action `reschedule`."""
    keeps_quotas: ClassVar[bool] = False
    """Whether it says what queues are charged; a policy names at most one such plugin."""
    ignores_cluster_reports: bool = False
    """Whether device reports of many nodes at once are passed over, so that only those of each node count."""

    def __init__(self, config: PluginConfig) -> None:
        self.config = config

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct | None:
        """Return the arguments of a policy; call `warn` for unknown ones. Raise PolicyError for a malformed value."""
        kind = cls.Arguments
        fields = {f.encode_name: f for f in msgspec.structs.fields(kind)} if kind and given else {}
        values: dict[str, object] = {}
        for key, value in given.items():
            if key in fields:
                values[key] = typed(value, fields[key].default, f"{path}.{key}")
            else:
                warn_unknown(cls.name, key, path, warn)
        try:
            return None if kind is None else msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            raise PolicyError(f"{path}: {error}") from error

    @classmethod
    def read_configuration(
        cls, arguments: Struct | None, given: JsonObject, path: str, warn: Warn
    ) -> Struct | None:
        """Return the arguments with those of the entry of `configurations` that belongs to the plugin."""
        return arguments

    @classmethod  # noqa: B027  # most plugins have nothing to check
    def check(cls, config: PluginConfig, tier: Iterable[type[PolicyPlugin]], path: str) -> None:
        """Raise PolicyError if the plugin contradicts another one of its tier."""

    def takes_part(self, flag: str) -> bool:
        """Return whether the plugin is enabled for a flag."""
        return self.config.takes_part(flag)


def warn_unknown(name: str, key: str, path: str, warn: Warn) -> None:
    """Warn of an argument that the plugin does not have."""
    warn(f"{path}.{key}", f"plugin {name} does not know this argument")
