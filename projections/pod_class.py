"""Classes of equal pods: pods with the same requests and constraints are decided together.

The key of a class is a digest of the raw bytes of what its pods demand; a class is parsed once. A demand that
muster does not support is kept in `unsupported`: such pods are refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, structs

from events.limits import (
    CHOICE_BYTES_MAX,
    ITEMS_MAX,
    RESOURCE_BYTES_MAX,
    RESOURCES_MAX,
    SPEC_FIELD_BYTES_MAX,
    TOO_LONG,
    TooLongError,
    check_length,
    clipped,
    name_problem,
    quoted,
)
from projections.affinity_terms import SelectedAs
from projections.claim_refs import (
    ClaimRef,
    StatedClaims,
    claims_of,
    claims_problem,
    may_have_claims,
    stated_claims,
)
from projections.deltas import PodChanged
from projections.device_families import DeviceFamilies
from projections.index import Index
from projections.objects import (
    Container,
    Few,
    PodObject,
    PodSpec,
    PodStatus,
    Quantities,
    Quantity,
    Weight,
)
from projections.pod_fields import refused_field
from projections.pod_terms import NO_TERMS, Labels, PodTerms, pod_terms, referenced_labels
from projections.quantity import QuantityError, cpu_milli, memory_bytes, whole
from projections.reported_resources import (
    NOT_REPORTED,
    RESIZED,
    Reported,
    ReportedResources,
    reported_resources,
    stated_requests,
)
from projections.selector import NodeSelector, Preference, Toleration
from projections.selector_terms import StatedTerm, StatedTerms, term_of

if TYPE_CHECKING:
    from projections.cluster import Cluster

CARD_NAME = "volcano.sh/card.name"
_CARD_NAME_SYNONYM = "volcano.sh/card.card"
CARD_KEYS: Final = (CARD_NAME, _CARD_NAME_SYNONYM)
"""Annotations that name the cards that a pod accepts."""

Amounts: TypeAlias = dict[str, int]
"""Resource name to amount: `cpu` in milli, `memory` and other storage in bytes, all others in whole units."""

BYTES_MAX = 1 << 55
"""Larger amounts of bytes (32 PiB) count as this, so that scores fit in 64 bits."""

AMOUNT_MAX = 1 << 45
"""Bound of all other amounts."""

DIGEST_BYTES: Final = 20
"""Length of the digest of a pod's demands, long enough to exclude collisions."""

NO_INDEX: Final = -1
"""Index of a class that no pod is of yet."""

READ_AS_BYTES: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("volumes", "resourceClaims"),
)
"""Fields of a pod's spec that muster reads, and that are left out of the log if they are too long."""

_TOO_LONG: Final = Raw(msgspec.json.encode(TOO_LONG))

ClassKey: TypeAlias = tuple[object, ...]


class PodClass(Struct, frozen=True):
    """What equal pods have in common."""

    index: int
    request: tuple[tuple[str, int], ...]
    """Resource name and amount, sorted by name, without zeros; `pods` is 1."""
    cards: tuple[str, ...] = ()
    """Accepted card names in order of preference; empty if the pod names none."""
    selector: NodeSelector = NodeSelector()
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unsupported: str = ""
    """Why pods of this class are always refused, or ""."""
    never_preempts: bool = False
    """Whether no pod is evicted for it (preemptionPolicy Never)."""
    images: tuple[str, ...] = ()
    """Images of its containers, with tags."""
    claims: tuple[ClaimRef, ...] = ()
    """The claims that their volumes name, in the order of the volumes."""
    terms: PodTerms = NO_TERMS
    """Its terms about other pods."""
    selected_as: SelectedAs | None = None
    """Such pods as terms of other pods see them; None if no term selects them."""
    plain: int = -1
    """Index of the class that differs only in `selected_as`; its own if no term selects it."""
    plugin_labels: Labels = ()
    """The labels of such pods that plugins of the policy read, as keys and values."""
    device_options: Labels = ()
    """The annotations and labels of such pods that say what devices they need, as keys and values."""
    asked_devices: tuple[tuple[str, int], ...] = ()
    """Device family to the number of devices with names that such a pod asks for, without zeros."""

    closed_tenant: str = ""
    """The tenant of such pods, if nodes may be closed to it because kubelets rejected pods of it (`projections/quarantine.py`);
    "" otherwise."""

    def asks_for(self, family: str) -> bool:
        """Return whether such pods ask for devices of a family, by name."""
        return family in dict(self.asked_devices)

    @property
    def amounts(self) -> Amounts:
        """Return the request as a mapping."""
        return dict(self.request)

    @property
    def is_best_effort(self) -> bool:
        """Return whether it requests nothing but a pod slot, so that it always fits: volumes may keep it from nodes."""
        return len(self.request) == 1 and not self.unsupported and not self.claims

    @property
    def depends_on_other_pods(self) -> bool:
        """Return whether its placement depends on which pods are in which domain, or affects that of other pods."""
        return self.selected_as is not None or self.terms.depends_on_other_pods


class PodClasses(Index):
    """The classes of all existing pods. A class is freed at the end of the record that removed its last pod.

    Indexes are not reused, so that cached results of a freed class are never taken for those of another.
    """

    name = "classes of pods"
    COMPARED: ClassVar[tuple[str, ...]] = ("uses", "by_index", "by_key")
    follows_status = False

    def __init__(self, families: DeviceFamilies) -> None:
        self.families = families
        self.by_key: dict[ClassKey, PodClass] = {}
        self.by_index: dict[int, PodClass] = {}
        self.next_index = 0
        self.freed_count = 0
        """Number of classes freed so far."""
        self.uses: dict[int, int] = {}
        """Index to the number of pods of the class and of classes that differ from it only in `selected_as`."""
        self._keys: dict[int, ClassKey] = {}
        self._unused: dict[int, None] = {}
        """Indexes of classes that may have no pods."""

    def rebuilt(self, cluster: "Cluster", /) -> "PodClasses":
        """Count the classes again: those of the existing pods, and the plain classes of these."""
        twin = PodClasses(self.families)
        for pod in cluster.pods.values():
            index = pod.pod_class.index
            twin.uses[index] = twin.uses.get(index, 0) + 1
        for index, one in self.by_index.items():
            if one.plain != index:
                twin.uses[one.plain] = twin.uses.get(one.plain, 0) + 1
        twin.by_index = {
            index: self.by_index[index] for index in twin.uses if index in self.by_index
        }
        twin.by_key = {self._keys[index]: one for index, one in twin.by_index.items()}
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Count the pods of all classes again. The classes themselves are those that pods were read with."""
        self.uses = self.rebuilt(cluster).uses
        self._unused = {index: None for index in self.by_index if index not in self.uses}

    def of(self, key: ClassKey, read: Callable[[], PodObject], problem: str = "") -> PodClass:
        """Return the class of a key; parse it if it is new."""
        found = self.by_key.get(key)
        if found is None:
            found = parse_class(self.next_index, read(), self.families, problem)
            self.keep(key, found)
        return found

    def parsed(self, key: ClassKey, pod_class: PodClass) -> PodClass:
        """Return the class of a key that was parsed without an index."""
        found = self.by_key.get(key)
        if found is None:
            found = structs.replace(pod_class, index=self.next_index, plain=self.next_index)
            self.keep(key, found)
        return found

    def demand_key(self, pod_class: PodClass) -> ClassKey:
        """Return the key of a class without what other pods, plugins and quarantines read of such pods."""
        plain = self.by_index[pod_class.plain]
        key = self._keys[plain.index]
        key = key[: -2 if plain.closed_tenant else None]
        return key[: -2 if plain.plugin_labels else None]

    def content_of(self, pod_class: PodClass) -> tuple[object, ...]:
        """Return what tells pods of a class from others, however the classes are numbered."""
        return self._keys[pod_class.plain], pod_class.selected_as

    def stated_request(self, pod_class: PodClass) -> "StatedRequest | None":
        """Return what annotations and labels of the pods of a class state; None for pods that cannot be read."""
        return StatedRequest.of(self._keys[pod_class.plain])

    def selected(self, pod_class: PodClass, seen: SelectedAs | None) -> PodClass:
        """Return the class of pods with the same demands that terms of other pods see as `seen`."""
        if pod_class.selected_as == seen:
            return pod_class
        plain = self.by_index[pod_class.plain]
        if seen is None:
            return plain
        digest = blake2b(msgspec.msgpack.encode(seen), digest_size=DIGEST_BYTES).digest()
        key = ("selected", plain.index, digest)
        found = self.by_key.get(key)
        if found is None:
            found = structs.replace(plain, index=self.next_index, selected_as=seen)
            self.keep(key, found)
        return found

    def labelled(self, pod_class: PodClass, labels: Labels, closed_tenant: str = "") -> PodClass:
        """Return the class of pods with the same demands, these labels for plugins, and this tenant, as no term sees
        them."""
        if (pod_class.plugin_labels, pod_class.closed_tenant) == (labels, closed_tenant):
            return pod_class
        plain, key = self.by_index[pod_class.plain], self.demand_key(pod_class)
        if labels:
            key = (*key, "labels", labels)
        if closed_tenant:
            key = (*key, "tenant", closed_tenant)
        found = self.by_key.get(key)
        if found is None:
            index = self.next_index
            found = structs.replace(
                plain,
                index=index,
                plain=index,
                plugin_labels=labels,
                closed_tenant=closed_tenant,
            )
            self.keep(key, found)
        return found

    def keep(self, key: ClassKey, pod_class: PodClass) -> None:
        """Add a class under its key. Classes must be added in the order of their indexes."""
        index = pod_class.index
        assert index >= self.next_index, "a class is out of its order"
        self.next_index = index + 1
        self.by_key[key] = self.by_index[index] = pod_class
        self._keys[index] = key
        self._unused[index] = None
        if pod_class.plain != index:
            self._count(pod_class.plain, 1)

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Count pods that change from one class to another."""
        for one in changes:
            cluster.position = one.position
            old = None if one.old is None else one.old.pod_class
            new = None if one.new is None else one.new.pod_class
            if old is new:
                continue
            if new is not None:
                self._count(new.index, 1)
            if old is not None:
                self._count(old.index, -1)

    def _count(self, index: int, sign: int) -> None:
        left = self.uses.get(index, 0) + sign
        self.uses[index] = left
        if not left:
            self._unused[index] = None

    def free(self) -> list[int]:
        """Free the classes without pods and return their indexes."""
        if not self._unused:
            return []
        freed: list[int] = []
        while self._unused:
            index = next(iter(self._unused))
            del self._unused[index]
            if self.uses.get(index):
                continue
            self.uses.pop(index, None)
            gone = self.by_index.pop(index)
            del self.by_key[self._keys.pop(index)]
            if gone.plain != index:
                self._count(gone.plain, -1)
            freed.append(index)
        self.freed_count += len(freed)
        return freed


class Demands(Struct, frozen=True, gc=False):
    """What the spec of a pod demands, as far as it distinguishes classes."""

    key: ClassKey
    referenced_labels: tuple[str, ...] | None
    """Keys of the pod's own labels that its terms reference; None without terms."""
    never_preempts: bool
    claims: StatedClaims = ()
    """The claims that its volumes name, in the order of the volumes."""


def demands_of(spec: PodSpec) -> Demands:
    """Return the demands of a spec."""
    containers = tuple(
        [
            (bytes(one.resources), bytes(one.ports), one.restartPolicy, one.image)
            for one in (*(spec.initContainers or ()), Container(), *(spec.containers or ()))
        ]
    )
    affinity, spreads = bytes(spec.affinity), bytes(spec.topologySpreadConstraints)
    demands = (
        containers,
        bytes(spec.overhead),
        bytes(spec.resources),
        bytes(spec.nodeSelector),
        affinity,
        bytes(spec.tolerations),
        spreads,
        bytes(spec.resourceClaims),
        "claims" if may_have_claims(bytes(spec.volumes)) else "",
        refused_field(spec),
    )
    return Demands(
        # A digest: the demands of a pod may be a megabyte long.
        key=(blake2b(msgspec.msgpack.encode(demands), digest_size=DIGEST_BYTES).digest(),),
        referenced_labels=referenced_labels(affinity, spreads),
        never_preempts=spec.preemptionPolicy == "Never",
        claims=stated_claims(bytes(spec.volumes)),
    )


def long_field_problem(spec: PodSpec) -> str:
    """Return which field of the spec was left out because of its length; "" if none that muster reads."""
    for name in READ_AS_BYTES:
        if getattr(spec, name) == _TOO_LONG:
            return f"spec.{name} is longer than {SPEC_FIELD_BYTES_MAX} bytes"
    return ""


def stated_cards(annotations: Mapping[str, str]) -> str:
    """Return the card names in the annotation, unparsed."""
    return annotations.get(CARD_NAME) or annotations.get(_CARD_NAME_SYNONYM) or ""


def class_key(
    demands: Demands,
    cards: str,
    namespace: str,
    labels: Mapping[str, str],
    device_options: Labels = (),
    pod: tuple[str, str] = ("", ""),
) -> ClassKey:
    """Return a key that is equal for pods with equal demands. Only labels that its own terms reference are part of
    it, what a device family reads, and which claims its volumes name: those of an ephemeral volume belong to one pod, of
    which `pod` is the name and UID."""
    own: tuple[object, ...] = ()
    if (keys := demands.referenced_labels) is not None:
        own = (namespace, tuple((key, labels[key]) for key in keys if key in labels))
    key = (*demands.key, cards, demands.never_preempts, own)
    if device_options:
        key = (*key, _DEVICES, device_options)
    if claims := demands.claims:
        alone = pod if any(one.is_ephemeral for one in claims) else ()
        key = (*key, "claims", namespace, *[(one.volume, one.name) for one in claims], alone)
    return key


class StatedRequest(Struct, frozen=True):
    """What of the key of a class annotations and labels state."""

    cards: str = ""
    options: Labels = ()
    """Annotations and labels that say what devices such pods need."""
    namespace: str = ""
    labels: Labels = ()
    """The labels of such pods that their own terms reference, and their namespace; both empty without terms."""

    @classmethod
    def of(cls, key: ClassKey) -> "StatedRequest | None":
        """Return what the key of a class states; None for pods that cannot be read."""
        if len(key) < _KEY_PARTS or not isinstance(key[1], str) or not isinstance(key[3], tuple):
            return None
        options = key[5] if key[4:5] == (_DEVICES,) else ()
        namespace, labels = key[3] or ("", ())
        return cls(key[1], cast("Labels", options), namespace, labels)

    def in_key(self, key: ClassKey, problem: str) -> ClassKey:
        """Return a key with this instead of what it states."""
        own = (self.namespace, self.labels) if key[3] else ()
        rest = key[6:] if key[4:5] == (_DEVICES,) else key[4:]
        devices = (_DEVICES, self.options) if self.options else ()
        found = (key[0], self.cards, key[2], own, *devices, *rest)
        return (*found, "problem", problem) if problem else found


def class_key_of(encoded: bytes) -> ClassKey:
    """Return the key of a class that was encoded: keys are tuples of tuples, and msgpack has only lists."""
    return _tuples(msgspec.msgpack.decode(encoded))


def _tuples(decoded: object) -> tuple[object, ...]:
    assert isinstance(decoded, list)
    return tuple([_tuples(part) if isinstance(part, list) else part for part in decoded])


_KEY_PARTS: Final = 4
_DEVICES: Final = "devices"


def parse_class(
    index: int, pod: PodObject, families: DeviceFamilies, problem: str = ""
) -> PodClass:
    """Parse the class of a pod. Pods with a `problem`, or with a demand that cannot be read, are refused; their
    request still counts on the node where they run."""
    spec, annotations = pod.spec or PodSpec(), pod.metadata.annotations or {}
    amounts, beyond = _request(spec, reported_of(spec, pod.status))
    options = () if problem else families.options_of_pod(annotations, pod.metadata.labels or {})
    if not problem and not beyond:
        options = tuple(sorted((*options, *_container_options(spec, amounts, families))))
    faults = [one for one in (problem, beyond, refused_field(spec)) if one]
    asked = families.asked(amounts, options)
    amounts, options = families.counted(amounts, options)
    found = PodClass(
        index=index,
        request=tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0)),
        never_preempts=spec.preemptionPolicy == "Never",
        plain=index,
        device_options=options,
        asked_devices=asked,
    )
    try:
        affinity = _optional(spec.affinity, _Affinity) or _Affinity()
        selector, preferences = _node_selector(spec, affinity)
        terms = pod_terms(spec, pod.metadata.namespace or "default", pod.metadata.labels or {})
        found = structs.replace(
            found,
            cards=card_names(stated_cards(annotations)),
            selector=selector,
            preferences=preferences,
            tolerations=tuple(_optional(spec.tolerations, Few[Toleration]) or ()),
            images=tuple(_images(spec)),
            claims=claims_of(stated_claims(bytes(spec.volumes)), pod.metadata),
            terms=terms,
        )
        wrong = claims_problem(bytes(spec.volumes))
    except (msgspec.ValidationError, TooLongError) as error:
        wrong = str(error)
    unsupported = next((one for one in (*faults, wrong) if one), "")
    return structs.replace(found, unsupported=clipped(unsupported)) if unsupported else found


def reported_of(spec: PodSpec, status: PodStatus | None) -> ReportedResources:
    """Return what the kubelet reports of a pod, as far as it may differ from its spec."""
    if status is None or not spec.nodeName:
        return NOT_REPORTED
    return reported_resources(spec, stated_requests(spec), status)


def reported_request(spec: PodSpec, reported: ReportedResources) -> tuple[tuple[str, int], ...]:
    """Return what a pod that is resized in place counts as, by resource; empty if that is what its spec requests, or if
    an amount cannot be read."""
    if reported == NOT_REPORTED:
        return ()
    try:
        counted, stated = effective_request(spec, reported), effective_request(spec)
    except (QuantityError, msgspec.ValidationError):
        return ()
    if counted == stated:
        return ()
    return tuple([(name, min(counted.get(name, 0), most_of(name))) for name in RESIZED])


def _request(spec: PodSpec, reported: ReportedResources = NOT_REPORTED) -> tuple[Amounts, str]:
    """Return the request of a pod, within bounds, and what of it cannot be read or exceeds the bounds."""
    try:
        amounts = effective_request(spec)
        amounts |= reported_request(spec, reported)
    except (QuantityError, msgspec.ValidationError) as error:
        return {"pods": 1}, str(error)
    amounts = {name: min(amount, most_of(name)) for name, amount in amounts.items()}
    wrong = next((text for one in amounts if (text := name_problem(one, RESOURCE_BYTES_MAX))), "")
    if not wrong and len(amounts) <= RESOURCES_MAX:
        return amounts, ""
    common = ("cpu", "memory", "ephemeral-storage", "pods")
    kept = {name: amounts[name] for name in common if name in amounts}
    text = f"{len(amounts)} resources are more than {RESOURCES_MAX}"
    return kept, f"resources.requests: {wrong or text}"


def _container_options(
    spec: PodSpec, amounts: Amounts, families: DeviceFamilies
) -> Iterator[tuple[str, str]]:
    """Yield what each container requests of the resources of which it gets devices of its own, if other containers than
    the first do. Init containers count together."""
    resources = [one for one in families.container_resources if one in amounts]
    if not resources:
        return
    init: Amounts = {}
    for container in spec.initContainers or ():
        _add(init, _container_request(container))
    asked = [_container_request(one) for one in spec.containers or ()]
    if not any(name in one for one in (*asked[1:], init) for name in resources):
        return
    for number, one in (*enumerate(asked), ("init", init)):
        yield from ((f"{name}@{number}", str(one[name])) for name in resources if name in one)


def card_names(text: str) -> tuple[str, ...]:
    """Return the cards of `A|B|C`, trimmed, without duplicates, in order of preference; none if the text is not
    valid."""
    if name_problem(text, CHOICE_BYTES_MAX):
        return ()
    return tuple(dict.fromkeys(name for part in text.split("|") if (name := part.strip())))


def effective_request(spec: PodSpec, reported: ReportedResources = NOT_REPORTED) -> Amounts:
    """Return the effective request of the pod (K5.7, K5.8), with `pods` = 1. Raise QuantityError."""

    def counted(container: Container) -> Amounts:
        one = reported.containers.get(container.name or "")
        stated = _container_request(container)
        return stated if one is None else _resized(stated, one, reported)

    running: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers or ():
        if container.restartPolicy == "Always":
            _add(sidecars, counted(container))
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _sum(_container_request(container), sidecars))
    for container in spec.containers or ():
        _add(running, counted(container))
    _add(running, sidecars)
    _raise_to(running, peak)
    if spec.resources:
        # Limits alone leave the sum over the containers.
        stated = _optional(spec.resources, _Resources) or _Resources()
        pod_level = amounts_of(stated.requests or {})
        if reported.pod is not None:
            pod_level = _resized(pod_level, reported.pod, reported)
        running.update(
            {
                name: amount
                for name, amount in pod_level.items()
                if name in ("cpu", "memory") or name.startswith("hugepages-")
            }
        )
    _add(running, amounts_of(_optional(spec.overhead, Quantities) or {}))
    running["pods"] = 1
    return running


def _resized(stated: Amounts, one: Reported, reported: ReportedResources) -> Amounts:
    """Return what a container or pod counts as: of cpu and memory the largest of what is requested, allocated and actual;
    without what is requested if the resize is infeasible."""
    actual, allocated = amounts_of(one.actual), amounts_of(one.allocated)
    total = dict(stated)
    for name in RESIZED:
        known = [amounts[name] for amounts in (actual, allocated) if name in amounts]
        if not known:
            continue
        if name in stated and not reported.is_infeasible:
            known.append(stated[name])
        total[name] = max(known)
    return total


def amounts_of(quantities: Quantities) -> Amounts:
    """Convert quantities to whole numbers in the units of `Amounts`. Raise QuantityError, also for negative
    amounts."""
    amounts = {name: amount_of(name, quantity) for name, quantity in quantities.items()}
    for name, amount in amounts.items():
        if amount < 0:
            raise QuantityError(f"{quoted(name)}: {quoted(quantities[name])} is negative")
    return amounts


def amount_of(name: str, quantity: Quantity) -> int:
    """Convert one quantity to the unit of its resource, within its bound. Raise QuantityError."""
    read = cpu_milli if name == "cpu" else memory_bytes if is_bytes(name) else whole
    most = most_of(name)
    return max(-most, min(read(quantity), most))


def most_of(name: str) -> int:
    """Return the bound of a resource."""
    return BYTES_MAX if is_bytes(name) else AMOUNT_MAX


def is_bytes(name: str) -> bool:
    """Return whether a resource is counted in bytes."""
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


class _Resources(Struct):
    requests: Quantities | None = None
    limits: Quantities | None = None


class _Preferred(Struct):
    weight: Weight
    preference: StatedTerm


class _NodeAffinity(Struct):
    requiredDuringSchedulingIgnoredDuringExecution: StatedTerms | None = None  # noqa: N815
    preferredDuringSchedulingIgnoredDuringExecution: Few[_Preferred] | None = None  # noqa: N815


class _Affinity(Struct):
    nodeAffinity: _NodeAffinity | None = None  # noqa: N815


_T = TypeVar("_T")


def _optional(raw: Raw, kind: type[_T]) -> _T | None:
    """Return the decoded value, or None if the field is absent or null."""
    if bytes(raw) in (b"", b"null"):
        return None
    return msgspec.json.decode(raw, type=kind)


def _node_selector(
    spec: PodSpec, affinity: _Affinity
) -> tuple[NodeSelector, tuple[Preference, ...]]:
    pairs = _optional(spec.nodeSelector, dict[str, str]) or {}
    check_length(pairs, ITEMS_MAX)
    node = affinity.nodeAffinity or _NodeAffinity()
    required = node.requiredDuringSchedulingIgnoredDuringExecution
    terms = None if required is None else tuple(term_of(one) for one in required.nodeSelectorTerms)
    preferences = tuple(
        Preference(weight=one.weight, term=term_of(one.preference))
        for one in node.preferredDuringSchedulingIgnoredDuringExecution or ()
    )
    return NodeSelector(pairs=tuple(sorted(pairs.items())), terms=terms), preferences


def _images(spec: PodSpec) -> Iterator[str]:
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        if container.image:
            yield image_name(container.image)


def image_name(name: str) -> str:
    """Return an image with its tag, as nodes list it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _container_request(container: Container) -> Amounts:
    """Return the request of a container; a missing request is the limit, as in the API server."""
    resources = _optional(container.resources, _Resources) or _Resources()
    return {**amounts_of(resources.limits or {}), **amounts_of(resources.requests or {})}


def _sum(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    _add(total, right)
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
