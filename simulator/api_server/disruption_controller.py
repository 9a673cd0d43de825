"""The disruption controller: it keeps the status of PodDisruptionBudgets (rule K9)."""

from collections.abc import Mapping
from typing import Final

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.api_server.list_selector import label_selector, labels_match
from simulator.api_server.served_resources import BUDGET, POD
from simulator.api_server.version_store import VersionStore
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    controller_of,
    is_terminal,
    is_terminating,
    list_at,
    name_of,
    namespace_of,
    section,
    uid_of,
    whole_at,
)
from simulator.object_store import resource_of

COUNT_NS: Final = SECOND // 10
"""The longest delay between a change and the next count."""
DISRUPTION_NS: Final = 120 * SECOND
"""How long an eviction counts though its pod was not deleted."""

_POD: Final = resource_of(POD)
_BUDGET: Final = resource_of(BUDGET)
_SCALED: Final = ("ReplicaSet", "StatefulSet", "Deployment")


def budgets_of(versions: VersionStore, pod: Manifest) -> list[Manifest]:
    """The budgets that select a pod, by name."""
    return [
        one.manifest
        for one in versions.now(_BUDGET)
        if one.key[1] == namespace_of(pod) and covers(one.manifest, pod)
    ]


def covers(budget: Manifest, pod: Manifest) -> bool:
    """Return True if a budget selects a pod: an empty selector selects all, a missing one none."""
    selector = section(budget, "spec").get("selector")
    if not isinstance(selector, dict):
        return False
    return labels_match(label_selector(selector), pod)


def is_ready(pod: Manifest) -> bool:
    """Return True if the pod's condition Ready is true."""
    conditions = list_at(section(pod, "status"), "conditions")
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


class DisruptionController:
    """Updates the status of budgets after pods or budgets changed.

    At once when a client reads budgets, else after a delay, because a count looks at every pod.
    """

    def __init__(self, simulated: SimulatedCluster, versions: VersionStore) -> None:
        self._simulated = simulated
        self._versions = versions
        self._is_due = True
        self._counted_ns = 0
        self._is_waiting = False
        """Whether evictions are pending that only the passing of time can end."""
        versions.listen(self._note)

    def _note(self, resource: str) -> None:
        if resource in (_POD, _BUDGET):
            self._is_due = True

    @property
    def next_ns(self) -> int | None:
        """When the next count is due; None if nothing changed."""
        return self._counted_ns + COUNT_NS if self._is_due else None

    def pass_time(self) -> None:
        """Count if it is due."""
        is_time = self._simulated.now_ns >= self._counted_ns + COUNT_NS
        if is_time and (self._is_due or self._is_waiting):
            self.reconcile()

    def reconcile(self) -> None:
        """Count again where something changed."""
        self._counted_ns = self._simulated.now_ns
        while self._is_due or self._is_waiting:
            is_due, self._is_due, self._is_waiting = self._is_due, False, False
            for version in self._versions.now(_BUDGET):
                budget = version.manifest
                status = self._counted(budget)
                if status != section(budget, "status"):
                    self._simulated.put(BUDGET, {**budget, "status": status})
                self._is_waiting |= bool(status.get("disruptedPods"))
            if not is_due and not self._is_due:
                return

    def _counted(self, budget: Manifest) -> JsonObject:
        pods = [
            one.manifest
            for one in self._versions.there(_POD)
            if one.key[1] == namespace_of(budget)
            and not is_terminal(one.manifest)
            and covers(budget, one.manifest)
        ]
        expected, desired = self._wanted(budget, pods)
        disrupted = section(budget, "status", "disruptedPods")
        names = {name_of(pod) for pod in pods if not is_terminating(pod)}
        oldest = self._simulated.store.timestamp(-DISRUPTION_NS)
        still: JsonObject = {
            name: at for name, at in disrupted.items() if name in names and str(at) > oldest
        }
        healthy = sum(
            is_ready(pod) and not is_terminating(pod) and name_of(pod) not in still for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: JsonObject = {
            "observedGeneration": whole_at(section(budget, "metadata"), "generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": self._conditions(budget, allowed),
        }
        if still:
            status["disruptedPods"] = still
        return status

    def _wanted(self, budget: Manifest, pods: list[Manifest]) -> tuple[int, int]:
        """Return the number of expected pods, and how many must stay healthy."""
        spec = section(budget, "spec")
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods)
        if isinstance(least, str):
            return expected, _share(least, expected)
        if most is not None:
            gone = most if isinstance(most, int) else _share(str(most), expected)
            return expected, max(0, expected - gone)
        return len(pods), 1

    def _scale(self, pods: list[Manifest]) -> int:
        """The number of pods that the owners want; a pod without a known owner counts itself."""
        replicas = {
            uid_of(one.manifest): whole_at(section(one.manifest, "spec"), "replicas", 1)
            for resource in _SCALED
            for one in self._versions.there(resource)
        }
        owners = {owner for pod in pods if (owner := controller_of(pod)) in replicas}
        alone = sum(controller_of(pod) not in replicas for pod in pods)
        return sum(replicas[owner] for owner in owners) + alone

    def _conditions(self, budget: Manifest, allowed: int) -> list[Json]:
        wanted: JsonObject = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "observedGeneration": whole_at(section(budget, "metadata"), "generation", 0),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        for one in list_at(section(budget, "status"), "conditions"):
            if one.get("status") == wanted["status"]:
                return [{**wanted, "lastTransitionTime": one.get("lastTransitionTime")}]
        return [{**wanted, "lastTransitionTime": self._simulated.store.timestamp()}]


def spent(budget: Manifest, pod: str, at: str) -> Manifest:
    """Return the budget after one more eviction."""
    status: Mapping[str, Json] = section(budget, "status")
    allowed = whole_at(status, "disruptionsAllowed", 0) - 1
    changes: JsonObject = {
        "disruptionsAllowed": allowed,
        "disruptedPods": {**section(status, "disruptedPods"), pod: at},
    }
    if allowed == 0:
        condition: JsonObject = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": whole_at(section(budget, "metadata"), "generation", 0),
            "reason": "InsufficientPods",
            "message": "",
            "lastTransitionTime": at,
        }
        changes["conditions"] = [condition]
    return changed(budget, "status", **changes)


def _share(text: str, of: int) -> int:
    """A percentage, rounded up, or a plain number."""
    if text.endswith("%"):
        return -(-int(text[:-1]) * of // 100)
    return int(text)
