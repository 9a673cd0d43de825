"""Copy objects of State so that the copy and the original can both be changed.

Nodes, queues, ledgers and indexes are copied. What is never changed in place is shared: facts of objects, classes of
pods, pods, policies and their plugins. Pod groups are shared until one side changes one (`PodGroupIndex.own`), because there may be as
many groups as pods.

The copy goes by the values and not by a list of attributes, so a new attribute or index needs no change here.
"""

from collections.abc import Iterable
from copy import copy
from fractions import Fraction
from typing import Final

import numpy as np
from msgspec import Struct

from projections.device_families import DeviceFamilies
from projections.feature import FeatureTable, NamedFeatures
from projections.nodes import Node
from projections.plugin import PluginSet
from projections.pod_groups import PodGroup

_SHARED: Final = frozenset(
    (
        *(str, int, bool, bytes, float, Fraction, type(None), object),
        *(NamedFeatures, FeatureTable, DeviceFamilies, PluginSet, PodGroup),
    )
)
"""Types whose values are not changed in place."""


class Copies:
    """Copies of objects; an object that several others refer to is copied once."""

    def __init__(self) -> None:
        self._copies: dict[int, object] = {}
        self._is_frozen: dict[type, bool] = {}
        self._slots: dict[type, tuple[str, ...]] = {}

    def of(self, value: object) -> object:
        """Return a copy of a value; the value itself if it is never changed in place."""
        if isinstance(value, dict):
            # All values of a dict are of one type, so the first one decides.
            for one in value.values():
                if self._is_shared(one):
                    return value.copy()
                return {key: self.of(inner) for key, inner in value.items()}
            return {}
        if isinstance(value, list):
            for one in value:
                return value.copy() if self._is_shared(one) else [self.of(inner) for inner in value]
            return []
        if self._is_shared(value):
            return value
        if isinstance(value, tuple):
            return tuple([self.of(inner) for inner in value])
        if isinstance(value, np.ndarray):
            return value.copy()
        return self._of_instance(value)

    def _of_instance(self, value: object) -> object:
        twin = self._copies.get(id(value))
        if twin is not None:
            return twin
        if isinstance(value, Node):
            twin = self._copies[id(value)] = value.copy()
            return twin
        twin = copy(value) if isinstance(value, Struct) else object.__new__(type(value))
        self._copies[id(value)] = twin
        for name in self._names(value):
            setattr(twin, name, self.of(getattr(value, name)))
        return twin

    def _names(self, value: object) -> Iterable[str]:
        """Return the names of the attributes of an object."""
        kind = type(value)
        slots = self._slots.get(kind)
        if slots is None:
            fields = value.__struct_fields__ if isinstance(value, Struct) else ()
            slots = self._slots[kind] = fields or tuple(getattr(kind, "__slots__", ()))
        return slots or vars(value)

    def _is_shared(self, value: object) -> bool:
        """Return whether a value is never changed in place."""
        kind = type(value)
        if kind in _SHARED:
            return True
        if isinstance(value, tuple):
            return all(map(self._is_shared, value))
        is_frozen = self._is_frozen.get(kind)
        if is_frozen is None:
            is_frozen = isinstance(value, Struct) and value.__struct_config__.frozen
            self._is_frozen[kind] = is_frozen
        return is_frozen
