"""Device families, asked together: what nodes have, and what pods say and ask for.

Readers of pods and nodes are given those of the table of features (`feature_device_families.py`). What none of them reads is not read: no
annotation, no label, no resource.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from projections.device_family import DeviceFamily, DeviceSources, Discovered
from projections.pod_terms import Labels


class DeviceFamilies:
    """Device families by name. The first one that knows a resource counts it."""

    def __init__(self, families: Iterable[DeviceFamily] = ()) -> None:
        self._by_name = {one.name: one for one in families}
        self._all = tuple(self._by_name.values())
        self.pod_options = self._keys(one.pod_options for one in self._all)
        """Keys of the annotations and labels of pods that say what devices they need."""
        self.group_options = self._keys(one.group_options for one in self._all)
        """Those of the annotations and labels of PodGroups."""
        self.pod_assignments = frozenset(self._keys(one.pod_assignments for one in self._all))
        """Keys of the annotations that say which devices a pod has."""
        self.reported_assignments = self._keys(one.reported_assignments for one in self._all)
        """Keys of the annotations by which device plugins say that."""
        self.container_resources = self._keys(one.container_resources for one in self._all)
        """Resources of which each container of a pod gets devices of its own."""
        self.confirmations = self._keys(
            (one.confirmation,) for one in self._all if one.confirmation
        )
        """Keys of the annotations by which device plugins confirm the devices of a pod."""
        self.unconfirming_labels = self._keys(
            (one.unconfirming_label,) for one in self._all if one.unconfirming_label
        )
        """Labels of pods on which such an annotation confirms nothing."""
        self._confirming = tuple([one for one in self._all if one.confirmation])
        self._node_annotations = self._keys(one.node_annotations for one in self._all)

    def __iter__(self) -> Iterator[DeviceFamily]:
        """Yield the families in their order."""
        return iter(self._all)

    def __getitem__(self, name: str) -> DeviceFamily:
        """Return the family of a name."""
        return self._by_name[name]

    @staticmethod
    def _keys(found: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple([key for keys in found for key in keys])

    # Nodes

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the devices of a node."""
        found = [one.discover(sources) for one in self._all if one.concerns_node(sources)]
        cards = {name: card for one in reversed(found) for name, card in one.cards.items()}
        devices = {name: there for one in reversed(found) for name, there in one.devices.items()}
        return Discovered(
            cards={name: cards[name] for name in sorted(cards)},
            devices={name: devices[name] for name in sorted(devices)},
            faults=tuple(fault for one in found for fault in one.faults),
            amounts={name: amount for one in found for name, amount in one.amounts.items()},
            converted={name: card for one in found for name, card in sorted(one.converted.items())},
        )

    def node_annotations(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return the annotations of a node that a family reads."""
        return {key: annotations[key] for key in self._node_annotations if key in annotations}

    # What pods and pod groups say

    def options_of_pod(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Labels:
        """Return the annotations and labels of a pod that say what devices it needs, sorted by key."""
        return _stated(self.pod_options, annotations, labels)

    def options_of_group(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Labels:
        """Return the annotations and labels of a PodGroup that say what devices its pods need, sorted by key."""
        return _stated(self.group_options, annotations, labels)

    def assignments_of(self, annotations: Mapping[str, str]) -> Labels:
        """Return the annotations of a pod that say which devices it has, sorted by key."""
        found = annotations.keys() & self.pod_assignments
        return tuple([(key, annotations[key]) for key in sorted(found)]) if found else ()

    def is_confirmed(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether a device plugin has confirmed the devices of a pod."""
        for one in self._confirming:
            if one.confirmation in annotations and one.unconfirming_label not in labels:
                value = annotations[one.confirmation]
                if value == (one.confirmed_value or value):
                    return True
        return False

    def unplaced_options(self, options: Labels, assignments: Labels) -> tuple[str, ...]:
        """Return the keys of options that count for nothing for a pod that is first seen on its node with these annotations."""
        stated, given = dict(options), dict(assignments)
        return tuple(
            sorted(
                key
                for one in self._all
                if any(key in stated for key in one.annotated_requests)
                and not any(key in given for key in one.pod_assignments)
                for key in one.pod_options
                if key in stated
            )
        )

    def rejection_in(self, message: str) -> str:
        """Return the text of a family by which the message of a pod says that devices could not be given; "" if there is none."""
        texts = (text for family in self._all for text in family.rejections)
        return next((one for one in texts if one in message), "")

    # What pods ask for

    def asked(self, request: dict[str, int], options: Labels) -> tuple[tuple[str, int], ...]:
        """Return, by family, how many devices with names a pod asks for; families of which it asks none are left out."""
        given = dict(options)
        found = [
            (one.name, one.asked(request, given))
            for one in self._all
            if one.concerns_pod(request, given)
        ]
        return tuple([(name, count) for name, count in found if count > 0])

    def counted(self, request: dict[str, int], options: Labels) -> tuple[dict[str, int], Labels]:
        """Return the request of a pod as nodes and queues count it, and its options, sorted by key."""
        counted, given = request, dict(options)
        for one in self._all:
            if one.concerns_pod(counted, given):
                counted, found = one.counted(counted, given)
                given = dict(found)
        return counted, tuple(sorted(given.items()))


NO_FAMILIES: Final = DeviceFamilies()
"""For readers of what pods say beside their devices."""


def _stated(
    keys: Iterable[str], annotations: Mapping[str, str], labels: Mapping[str, str]
) -> Labels:
    found: dict[str, str] = {}
    for key in keys:
        if key in annotations or key in labels:
            found[key] = annotations[key] if key in annotations else labels[key]
    return tuple(sorted(found.items())) if found else ()
