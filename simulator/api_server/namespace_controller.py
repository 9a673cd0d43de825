"""The namespace controller: initial namespaces, and the deletion of a namespace with its objects."""

from typing import Final

from simulator.api_server.deletion import DeleteOptions, Deleter
from simulator.api_server.served_resources import NAMESPACE, ResourceCatalogue, ServedResource
from simulator.api_server.version_store import VersionStore
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import changed, is_terminating, section
from simulator.object_store import resource_of

_NAMESPACE: Final = resource_of(NAMESPACE)
_ALWAYS: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def make_namespaces(simulated: SimulatedCluster, named: set[str]) -> None:
    """Create the namespaces of every cluster, and those of existing objects."""
    there = {key[1] for objects in simulated.store.objects().values() for key in objects}
    for name in sorted({*_ALWAYS, *there, *named} - {""}):
        if simulated.find(_NAMESPACE, "", name) is None:
            simulated.put(
                NAMESPACE,
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                },
            )


class NamespaceController:
    """Empties namespaces that are being deleted, and then removes them."""

    def __init__(
        self,
        simulated: SimulatedCluster,
        versions: VersionStore,
        catalogue: ResourceCatalogue,
        deleter: Deleter,
    ) -> None:
        self._simulated = simulated
        self._versions = versions
        self._catalogue = catalogue
        self._deleter = deleter
        self._terminating = False
        versions.listen(self._note)
        self._note(_NAMESPACE)

    def _note(self, resource: str) -> None:
        if resource == _NAMESPACE:
            self._terminating = any(
                is_terminating(one.manifest) for one in self._versions.now(_NAMESPACE)
            )

    def reconcile(self) -> None:
        """Delete the objects of terminating namespaces; remove the namespaces that are empty."""
        if not self._terminating:
            return
        for version in self._versions.now(_NAMESPACE):
            if is_terminating(version.manifest) and not self._empty(version.key[2]):
                finalizers = section(version.manifest, "metadata").get("finalizers")
                if finalizers:
                    released = changed(version.manifest, "spec", finalizers=[])
                    if released != version.manifest:
                        self._simulated.put(NAMESPACE, released)
                else:
                    self._simulated.remove(version.key)

    def _empty(self, namespace: str) -> bool:
        """Return True if an object remains that has to be removed first."""
        is_left = False
        for served in self._catalogue.all():
            if not served.kind.is_namespaced or served.is_virtual:
                continue
            is_left |= self._empty_of(served, namespace)
        return is_left

    def _empty_of(self, served: ServedResource, namespace: str) -> bool:
        is_left = False
        for version in self._versions.now(served.resource):
            if version.key[1] != namespace or self._versions.find(version.key) is not version:
                continue
            if not is_terminating(version.manifest):
                self._deleter.carry_out(served, version.key, version.manifest, DeleteOptions())
            is_left |= self._versions.find(version.key) is not None
        return is_left
