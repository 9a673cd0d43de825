"""The autoscalers of a scenario as its steps will make them, so that what cannot be is an error of its line.

Nobody but the steps writes what an autoscaler says: it is known when the scenario is read.
"""

from events.normalize import JsonObject
from simulator.manifest import AUTOSCALER, Kind, LocatedManifest, Manifest
from simulator.manifest_fields import merged
from simulator.workload_validation import raise_autoscaler_fault
from simulator.yaml_document import YamlValue


class PlannedAutoscalers:
    """What is there by the step that is read now."""

    def __init__(self) -> None:
        self._autoscalers: dict[tuple[str, str], Manifest] = {}

    def add(self, placed: LocatedManifest, value: YamlValue | None = None) -> None:
        """An object comes, or changes to what its manifest (`value`) says."""
        if placed.kind != AUTOSCALER:
            return
        key = (placed.namespace, placed.name)
        if key in self._autoscalers and value is not None:
            self.patch(AUTOSCALER, *key, placed.manifest, value)
        else:
            self._autoscalers[key] = placed.manifest

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """An object is deleted."""
        if kind == AUTOSCALER:
            self._autoscalers.pop((namespace, name), None)

    def patch(
        self, kind: Kind, namespace: str, name: str, merge: JsonObject, value: YamlValue
    ) -> None:
        """An object is changed; `value` is the patch as it is written."""
        found = self._autoscalers.get((namespace, name)) if kind == AUTOSCALER else None
        if found is None:
            return
        result = merged(found, merge)
        assert isinstance(result, dict)
        raise_autoscaler_fault(result, value)
        self._autoscalers[namespace, name] = result
