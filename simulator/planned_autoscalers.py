"""The autoscalers of a scenario as its steps will change them, so that an invalid one is an error with its line.

Only the steps write the spec of an autoscaler: it is known when the scenario is read.
"""

from events.normalize import JsonObject
from events.yaml_document import YamlValue
from simulator.manifest import AUTOSCALER, Kind, LocatedManifest, Manifest
from simulator.manifest_fields import merged
from simulator.workload_validation import raise_autoscaler_fault


class PlannedAutoscalers:
    """The autoscalers that exist at the step that is being read."""

    def __init__(self) -> None:
        self._autoscalers: dict[tuple[str, str], Manifest] = {}

    def add(self, placed: LocatedManifest, value: YamlValue | None = None) -> None:
        """Add an object, or change it to its manifest (`value`)."""
        if placed.kind != AUTOSCALER:
            return
        key = (placed.namespace, placed.name)
        if key in self._autoscalers and value is not None:
            self.patch(AUTOSCALER, *key, placed.manifest, value)
        else:
            self._autoscalers[key] = placed.manifest

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove an object."""
        if kind == AUTOSCALER:
            self._autoscalers.pop((namespace, name), None)

    def patch(
        self, kind: Kind, namespace: str, name: str, merge: JsonObject, value: YamlValue
    ) -> None:
        """Patch an object; `value` is the patch in the scenario's text."""
        found = self._autoscalers.get((namespace, name)) if kind == AUTOSCALER else None
        if found is None:
            return
        result = merged(found, merge)
        assert isinstance(result, dict)
        raise_autoscaler_fault(result, value)
        self._autoscalers[namespace, name] = result
