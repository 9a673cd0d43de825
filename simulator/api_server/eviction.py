"""`POST pods/NAME/eviction`: every response of rule K9, in the order in which kube-apiserver decides."""

from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from simulator.api_server.creation import check_kind, decode_body
from simulator.api_server.deletion import DeleteOptions, Deleter, check_preconditions
from simulator.api_server.disruption_controller import budgets_of, is_ready, spent
from simulator.api_server.http_message import Request, Response, StatusError, success
from simulator.api_server.request_target import Target
from simulator.api_server.served_resources import BUDGET, ResourceCatalogue
from simulator.api_server.status_errors import bad_request, forbidden, not_found
from simulator.api_server.version_store import VersionStore
from simulator.cluster import Call, SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    is_terminal,
    is_terminating,
    list_at,
    name_of,
    phase_of,
    section,
    uid_of,
    whole_at,
)

_AGAIN_SECONDS: Final = 10
_VIOLATES: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_MANY: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


class Evictor:
    """Evicts pods."""

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

    def evict(self, target: Target, request: Request) -> Response:
        """Return 201 if termination began, or the pod is already gone."""
        document = decode_body(request, target.served)
        check_kind(document, target.served, kind="Eviction")
        if name_of(document) != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = _options(document, request)
        version = self._versions.find(target.key)
        if version is None:
            raise not_found(target.served, target.name)
        pod = version.manifest
        is_free = is_terminal(pod) or is_terminating(pod) or phase_of(pod) == "Pending"
        if not is_free:
            # The budget is spent even if the precondition then fails.
            self._spend(pod, is_dry=bool(options.dryRun))
        check_preconditions(target.served, pod, options)
        if not options.dryRun:
            self._terminate(target, pod, options)
        return success(201)

    def _terminate(self, target: Target, pod: Manifest, options: DeleteOptions) -> None:
        self._simulated.journal.append(
            Call(
                at_ns=self._simulated.now_ns,
                verb="evict",
                subject=f"{target.namespace}/{target.name}",
                uid=uid_of(pod),
                value=str(section(pod, "spec").get("nodeName", "")),
                decision=0,
                result="done",
            )
        )
        if not is_terminating(pod) and not is_terminal(pod):
            pod = self._simulated.put(target.served.kind, self._disrupted(pod))
        version = self._versions.find(target.key)
        if version is not None:
            self._deleter.carry_out(target.served, target.key, version.manifest, options)

    def _disrupted(self, pod: Manifest) -> Manifest:
        condition: JsonObject = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._simulated.store.timestamp(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        others: list[Json] = [
            dict(one)
            for one in list_at(section(pod, "status"), "conditions")
            if one.get("type") != "DisruptionTarget"
        ]
        return changed(pod, "status", conditions=[*others, condition])

    def _spend(self, pod: Manifest, *, is_dry: bool) -> None:
        """Check the budget of a running pod, and spend one disruption."""
        budgets = budgets_of(self._versions, pod)
        if len(budgets) > 1:
            raise StatusError(500, "", _TOO_MANY)
        if not budgets or _passes(budgets[0], pod):
            return
        budget = budgets[0]
        self._check(budget)
        if not is_dry:
            at = self._simulated.store.timestamp()
            self._simulated.put(BUDGET, spent(budget, name_of(pod), at))

    def _check(self, budget: Manifest) -> None:
        status, name = section(budget, "status"), name_of(budget)
        generation = whole_at(section(budget, "metadata"), "generation", 0)
        if whole_at(status, "observedGeneration", 0) < generation:
            raise _refused(
                f"The disruption budget {name} is still being processed by the server.",
                _AGAIN_SECONDS,
            )
        allowed = whole_at(status, "disruptionsAllowed", 0)
        if allowed < 0:
            served = self._catalogue.of_kind(BUDGET.kind)
            assert served is not None, "budgets are built in"
            raise forbidden(served, name, "pdb disruptions allowed is negative")
        if allowed == 0:
            desired = whole_at(status, "desiredHealthy", 0)
            healthy = whole_at(status, "currentHealthy", 0)
            raise _refused(
                f"The disruption budget {name} needs {desired} healthy pods and has "
                f"{healthy} currently",
                0,
            )


def _passes(budget: Manifest, pod: Manifest) -> bool:
    """An unready pod may be evicted if its policy allows it, or if enough pods are healthy (K9.3)."""
    if is_ready(pod):
        return False
    if section(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = section(budget, "status")
    desired = whole_at(status, "desiredHealthy", 0)
    return 0 < desired <= whole_at(status, "currentHealthy", 0)


def _refused(why: str, seconds: int) -> StatusError:
    """Return 429 with the budget as its cause: this is no throttling (K9.2)."""
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return StatusError(429, "TooManyRequests", _VIOLATES, details)


def _options(document: JsonObject, request: Request) -> DeleteOptions:
    try:
        given = msgspec.convert(document.get("deleteOptions") or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"deleteOptions cannot be read: {error}") from error
    if "dryRun" in request.query:
        return msgspec.structs.replace(given, dryRun=("All",))
    return given
