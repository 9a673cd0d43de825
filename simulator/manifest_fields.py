"""Read and change manifests. Changed parts are copied, unchanged parts shared."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from events.duration import nanoseconds
from events.normalize import Json, JsonObject
from features.pools.index import is_slot
from projections.job_option_keys import RELEASE_REQUESTED
from projections.policy.pools import DEFAULT_POOL, Pool
from projections.quantity import QuantityError, cpu_milli, memory_bytes, parse
from simulator.manifest import (
    CHECKPOINT_EVERY_SECONDS,
    CHECKPOINT_SECONDS,
    RUN_SECONDS,
    STOP_SECONDS,
    WORK_SLOT_SECONDS,
    WORK_SLOTS,
    Manifest,
)

Amounts: TypeAlias = dict[str, int]
"""Resource to amount: cpu in milli, memory in bytes, all else rounded up to whole numbers."""

_NOTHING: Final[Mapping[str, Json]] = {}
_ANY_CARDS: Final = Pool(DEFAULT_POOL)
"""A pool that counts as slots what counts cards."""
_BYTES: Final = ("memory", "storage", "ephemeral-storage")


def section(value: Mapping[str, Json], *path: str) -> Mapping[str, Json]:
    """Return the mapping under a path of keys; empty if there is none."""
    for key in path:
        inner = value.get(key)
        if not isinstance(inner, dict):
            return _NOTHING
        value = inner
    return value


def text_at(value: Mapping[str, Json], key: str) -> str:
    """Return the text under a key; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def whole_at(value: Mapping[str, Json], key: str, default: int) -> int:
    """Return the whole number under a key, or the default."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def list_at(value: Mapping[str, Json], key: str) -> list[Mapping[str, Json]]:
    """Return the mappings in the list under a key."""
    found = value.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def changed(manifest: Manifest, key: str, **changes: Json) -> Manifest:
    """Return the manifest with some fields of one section (`spec`, `status` ...) changed."""
    return {**manifest, key: {**section(manifest, key), **changes}}


def merged(target: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386): null removes, mappings are merged, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result: JsonObject = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def name_of(manifest: Manifest) -> str:
    """`metadata.name`"""
    return text_at(section(manifest, "metadata"), "name")


def namespace_of(manifest: Manifest) -> str:
    """`metadata.namespace`; empty for cluster-wide objects."""
    return text_at(section(manifest, "metadata"), "namespace")


def uid_of(manifest: Manifest) -> str:
    """`metadata.uid`"""
    return text_at(section(manifest, "metadata"), "uid")


def controller_of(manifest: Manifest) -> str:
    """Return the uid of the controlling owner; empty if there is none."""
    for owner in list_at(section(manifest, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            return text_at(owner, "uid")
    return ""


def phase_of(manifest: Manifest) -> str:
    """`status.phase`"""
    return text_at(section(manifest, "status"), "phase")


def node_of(pod: Manifest) -> str:
    """`spec.nodeName`; empty for a pod without a node."""
    return text_at(section(pod, "spec"), "nodeName")


def is_terminating(manifest: Manifest) -> bool:
    """Return True if the object is being deleted."""
    return bool(section(manifest, "metadata").get("deletionTimestamp"))


def is_terminal(pod: Manifest) -> bool:
    """Return True if the pod has ended and uses no resources."""
    return phase_of(pod) in ("Succeeded", "Failed")


def run_ns(pod: Manifest) -> int | None:
    """How long the pod runs, in nanoseconds; None: for ever. A trial pod runs until its work is done."""
    work = work_slot_ns(pod)
    return _annotated_ns(pod, RUN_SECONDS) if work is None else -(-work // slots_of(pod))


def stop_ns(pod: Manifest) -> int | None:
    """How long the pod takes to stop, in nanoseconds; None: not stated."""
    return _annotated_ns(pod, STOP_SECONDS)


def work_slot_ns(pod: Manifest) -> int | None:
    """The work of a trial pod, in slot-nanoseconds; None: it states none."""
    return _annotated_ns(pod, WORK_SLOT_SECONDS)


def checkpoint_every_ns(pod: Manifest) -> int | None:
    """The time between two checkpoints of a trial pod; None: it writes none by itself."""
    return _annotated_ns(pod, CHECKPOINT_EVERY_SECONDS) or None


def checkpoint_ns(pod: Manifest) -> int | None:
    """How long a pod writes a checkpoint before it exits on request; None: it ignores such requests."""
    return _annotated_ns(pod, CHECKPOINT_SECONDS)


def is_release_requested(pod: Manifest) -> bool:
    """Return True if the pod is asked to release its resources."""
    return RELEASE_REQUESTED in section(pod, "metadata", "annotations")


def slots_of(pod: Manifest) -> int:
    """The slots of a trial pod: as stated, else its requests of cards, at least 1."""
    stated = text_at(section(pod, "metadata", "annotations"), WORK_SLOTS)
    if stated.isascii() and stated.isdecimal():
        return max(1, int(stated[:9]))
    asked = request_of(section(pod, "spec"))
    return max(1, sum(amount for name, amount in asked.items() if is_slot(_ANY_CARDS, name)))


def _annotated_ns(pod: Manifest, key: str) -> int | None:
    text = text_at(section(pod, "metadata", "annotations"), key)
    try:
        return nanoseconds(text) if text else None
    except ValueError:
        return None


def amounts(quantities: Mapping[str, Json]) -> Amounts:
    """Quantities as whole numbers; invalid ones are left out, since an API server has none."""
    result: Amounts = {}
    for name, quantity in quantities.items():
        if not isinstance(quantity, str | int | float):
            continue
        try:
            if name == "cpu":
                result[name] = cpu_milli(quantity)
            elif name in _BYTES or name.startswith("hugepages-"):
                result[name] = memory_bytes(quantity)
            else:
                result[name] = _ceiling(parse(quantity))
        except QuantityError:
            continue
    return result


def request_of(spec: Mapping[str, Json]) -> Amounts:
    """The resources that a pod uses of its node (K5.7), with `pods` = 1."""
    total = _pod_total(spec, _container_request, _stated_request)
    add(total, amounts(section(spec, "overhead")))
    total["pods"] = 1
    return total


def allocated_of(pod: Manifest) -> Amounts:
    """Return the resources of its node that a kubelet has given a pod: of cpu and memory what its status reports as allocated or
    in use, where it does, else what the spec requests."""
    spec, status = section(pod, "spec"), section(pod, "status")
    if not reports_resources(pod):
        return request_of(spec)
    reported = {text_at(one, "name"): one for one in _container_statuses(status)}
    given: dict[str, Json] = dict(spec)
    for key in ("initContainers", "containers"):
        given[key] = [
            _with_reported(one, reported.get(text_at(one, "name"), {}))
            for one in list_at(spec, key)
        ]
    if "resources" in spec:
        given = _with_reported(given, status)
    return request_of(given)


def reports_resources(pod: Manifest) -> bool:
    """Return whether the status of a pod reports the resources that it has."""
    status = section(pod, "status")
    return any("resources" in one for one in (status, *_container_statuses(status)))


def _container_statuses(status: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    return [*list_at(status, "containerStatuses"), *list_at(status, "initContainerStatuses")]


def _with_reported(stated: Mapping[str, Json], status: Mapping[str, Json]) -> dict[str, Json]:
    """Return a container, or the spec of a pod, that requests what its status reports."""
    if "resources" not in status:
        return dict(stated)
    allocated, actual = (
        amounts(section(status, "allocatedResources")),
        amounts(section(status, "resources", "requests")),
    )
    requests = dict(section(stated, "resources", "requests"))
    for name in ("cpu", "memory"):
        if name in allocated or name in actual:
            requests[name] = quantity(name, max(allocated.get(name, 0), actual.get(name, 0)))
    return {**stated, "resources": {**section(stated, "resources"), "requests": requests}}


def limits_of(spec: Mapping[str, Json]) -> Amounts:
    """Return the limits of a pod; what no container limits is left out."""
    total = _pod_total(spec, _container_limits, _container_limits)
    overhead = amounts(section(spec, "overhead"))
    add(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return total


def _pod_total(
    spec: Mapping[str, Json],
    of_container: Callable[[Mapping[str, Json]], Amounts],
    of_pod: Callable[[Mapping[str, Json]], Amounts],
) -> Amounts:
    """Return the sum over containers, or the peak of init containers; what the pod itself states instead of them."""
    total: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in list_at(spec, "initContainers"):
        stated = of_container(container)
        if container.get("restartPolicy") == "Always":
            add(sidecars, stated)
            _raise_to(peak, sidecars)
        else:
            add(stated, sidecars)
            _raise_to(peak, stated)
    for container in list_at(spec, "containers"):
        add(total, of_container(container))
    add(total, sidecars)
    _raise_to(total, peak)
    for name, amount in of_pod(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    return total


def add(total: Amounts, more: Amounts, times: int = 1) -> None:
    """Add `more`, times a factor, to `total`."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def quantities(total: Amounts) -> JsonObject:
    """Amounts as quantities of a manifest."""
    return {name: quantity(name, amount) for name, amount in total.items()}


def quantity(name: str, amount: int) -> str:
    """Return an amount of a resource as a quantity of a manifest."""
    if name != "cpu":
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def _container_request(container: Mapping[str, Json]) -> Amounts:
    requests = amounts(section(container, "resources", "requests"))
    return {**_container_limits(container), **requests}


def _stated_request(container: Mapping[str, Json]) -> Amounts:
    return amounts(section(container, "resources", "requests"))


def _container_limits(container: Mapping[str, Json]) -> Amounts:
    return amounts(section(container, "resources", "limits"))


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _ceiling(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
