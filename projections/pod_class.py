"""Classes of equal pods: pods that ask for the same and may go to the same nodes are decided as one.

A class is found by the raw bytes of what its pods demand and parsed once. Whatever a pod demands that
muster does not support is kept as the class's `unsupported`: such pods are refused, never half understood.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from projections.objects import Container, PodObject, PodSpec, Quantities, Quantity
from projections.pod_terms import NO_TERMS, Regard, Terms, looked_at, pod_terms
from projections.quantity import QuantityError, cpu_milli, memory_bytes, whole
from projections.selector import NodeSelector, Preference, Requirement, Term, Toleration

CARD_NAME = "volcano.sh/card.name"
_CARD_NAME_SYNONYM = "volcano.sh/card.card"

Amounts: TypeAlias = dict[str, int]
"""Resource name to amount: `cpu` in milli, `memory` and other storage in bytes, the rest whole."""

BYTES_MAX = 1 << 55
"""More bytes than this (32 PiB) are treated as this: a bound that keeps scores within 64 bits."""

AMOUNT_MAX = 1 << 45
"""The same for everything that is not bytes."""

ClassKey: TypeAlias = tuple[object, ...]


class PodClass(Struct, frozen=True):
    """What equal pods have in common."""

    index: int
    request: tuple[tuple[str, int], ...]
    """Resource name and amount, sorted by name, without zeros; `pods` is 1."""
    cards: tuple[str, ...] = ()
    """Acceptable card names in order of preference; empty where the pod names none."""
    selector: NodeSelector = NodeSelector()
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unsupported: str = ""
    """Why pods of this class are refused whatever the cluster looks like; else empty."""
    never_preempts: bool = False
    """Whether nobody is to be evicted for it."""
    images: tuple[str, ...] = ()
    """The images of its containers, with their tags."""
    claims: str = ""
    """Why pods of this class are refused as long as volumes are looked at; else empty."""
    terms: Terms = NO_TERMS
    """What it asks about other pods."""
    regarded: tuple[Regard, ...] = ()
    """What other pods think of such pods (`projections/regards.py`)."""
    plain: int = -1
    """The index of the class that only differs in what others think; its own where nobody thinks anything."""

    @property
    def amounts(self) -> Amounts:
        """The request as a mapping."""
        return dict(self.request)

    @property
    def is_best_effort(self) -> bool:
        """Whether it asks for nothing but a place, so that it always fits."""
        return len(self.request) == 1 and not self.unsupported and not self.claims

    @property
    def looks_around(self) -> bool:
        """Whether it matters who stands in which domain, to these pods or to others of them."""
        return bool(self.regarded) or self.terms.looks_around


class PodClasses:
    """All classes there are, in the order of their indexes."""

    def __init__(self) -> None:
        self.by_key: dict[ClassKey, PodClass] = {}
        self.ordered: list[PodClass] = []

    def of(self, key: ClassKey, read: Callable[[], PodObject], problem: str = "") -> PodClass:
        """The class of a pod, parsed when it is the first of its kind."""
        found = self.by_key.get(key)
        if found is None:
            found = parse_class(len(self.ordered), read(), problem)
            self.keep(key, found)
        return found

    def regarded(self, pod_class: PodClass, regards: tuple[Regard, ...]) -> PodClass:
        """The class of pods that demand the same and of which others think so."""
        if pod_class.regarded == regards:
            return pod_class
        plain = self.ordered[pod_class.plain]
        if not regards:
            return plain
        key = ("regarded", plain.index, msgspec.json.encode(regards).decode())
        found = self.by_key.get(key)
        if found is None:
            found = structs.replace(plain, index=len(self.ordered), regarded=regards)
            self.keep(key, found)
        return found

    def keep(self, key: ClassKey, pod_class: PodClass) -> None:
        """Know a class by its key. Classes are kept in the order of their indexes."""
        assert pod_class.index == len(self.ordered), "a class is out of its order"
        self.by_key[key] = pod_class
        self.ordered.append(pod_class)


class Demands(Struct, frozen=True):
    """What the spec of a pod asks for, as far as it makes pods unlike."""

    key: ClassKey
    looked_at: tuple[str, ...] | None
    """The labels of the pod on which its own terms depend; None where it has no terms."""
    never_preempts: bool


def demands_of(spec: PodSpec) -> Demands:
    """The demands of a spec."""
    containers = tuple(
        [
            (bytes(one.resources), bytes(one.ports), one.restartPolicy, one.image)
            for one in (*(spec.initContainers or ()), Container(), *(spec.containers or ()))
        ]
    )
    affinity, spreads = bytes(spec.affinity), bytes(spec.topologySpreadConstraints)
    return Demands(
        key=(
            containers,
            bytes(spec.overhead),
            bytes(spec.resources),
            bytes(spec.nodeSelector),
            affinity,
            bytes(spec.tolerations),
            spreads,
            bytes(spec.resourceClaims),
            _volume_demand(spec.volumes),
        ),
        looked_at=looked_at(affinity, spreads),
        never_preempts=spec.preemptionPolicy == "Never",
    )


def stated_cards(annotations: Mapping[str, str]) -> str:
    """The cards that a pod names, as it names them."""
    return annotations.get(CARD_NAME) or annotations.get(_CARD_NAME_SYNONYM) or ""


def class_key(demands: Demands, cards: str, namespace: str, labels: Mapping[str, str]) -> ClassKey:
    """Equal for pods that make the same demands. Of its labels count those that its own terms look at."""
    own: tuple[object, ...] = ()
    if (keys := demands.looked_at) is not None:
        own = (namespace, tuple((key, labels[key]) for key in keys if key in labels))
    return (*demands.key, cards, demands.never_preempts, own)


def parse_class(index: int, pod: PodObject, problem: str = "") -> PodClass:
    """The class of a pod, as its demands say; `problem` is why they could not be read at all."""
    if problem:
        return _refused(index, problem)
    spec, annotations = pod.spec or PodSpec(), pod.metadata.annotations or {}
    try:
        amounts = effective_request(spec)
        affinity = _optional(spec.affinity, _Affinity) or _Affinity()
        selector, preferences = _node_selector(spec, affinity)
        tolerations = tuple(_optional(spec.tolerations, list[Toleration]) or ())
        claims = "resourceClaims are not supported" if _has_claims(spec) else ""
        terms = pod_terms(spec, pod.metadata.namespace or "default", pod.metadata.labels or {})
        volumes = _volume_claims(spec)
    except (QuantityError, msgspec.ValidationError) as error:
        return _refused(index, str(error))
    return PodClass(
        index=index,
        request=tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0)),
        cards=card_names(stated_cards(annotations)),
        selector=selector,
        preferences=preferences,
        tolerations=tolerations,
        unsupported=claims,
        never_preempts=spec.preemptionPolicy == "Never",
        images=tuple(_images(spec)),
        claims=volumes,
        terms=terms,
        plain=index,
    )


def _refused(index: int, problem: str) -> PodClass:
    return PodClass(index=index, request=(("pods", 1),), unsupported=problem, plain=index)


def card_names(text: str) -> tuple[str, ...]:
    """The cards of `A|B|C`, trimmed, without duplicates, in order of preference."""
    return tuple(dict.fromkeys(name for part in text.split("|") if (name := part.strip())))


def effective_request(spec: PodSpec) -> Amounts:
    """What the pod takes of its node (K5.7), with `pods` = 1. Raises QuantityError."""
    running: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers or ():
        request = _container_request(container)
        if container.restartPolicy == "Always":
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _sum(request, sidecars))
    for container in spec.containers or ():
        _add(running, _container_request(container))
    _add(running, sidecars)
    _raise_to(running, peak)
    if spec.resources:
        pod_level = _container_request(Container(resources=spec.resources))
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


def amounts_of(quantities: Quantities) -> Amounts:
    """Quantities as whole numbers in the units of `Amounts`. Raises QuantityError, for less than none, too."""
    amounts = {name: amount_of(name, quantity) for name, quantity in quantities.items()}
    for name, amount in amounts.items():
        if amount < 0:
            raise QuantityError(f"{name}: {quantities[name]} is negative")
    return amounts


def amount_of(name: str, quantity: Quantity) -> int:
    """One quantity in the unit of its resource, within its bound. Raises QuantityError."""
    if name == "cpu":
        return min(cpu_milli(quantity), AMOUNT_MAX)
    if is_bytes(name):
        return min(memory_bytes(quantity), BYTES_MAX)
    return min(whole(quantity), AMOUNT_MAX)


def is_bytes(name: str) -> bool:
    """Whether a resource is counted in bytes."""
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


class _Resources(Struct):
    requests: Quantities | None = None
    limits: Quantities | None = None


class _Expression(Struct):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(Struct):
    matchExpressions: list[_Expression] | None = None  # noqa: N815
    matchFields: list[_Expression] | None = None  # noqa: N815


class _Terms(Struct):
    nodeSelectorTerms: list[_Term]  # noqa: N815


class _Preferred(Struct):
    weight: int
    preference: _Term


class _NodeAffinity(Struct):
    requiredDuringSchedulingIgnoredDuringExecution: _Terms | None = None  # noqa: N815
    preferredDuringSchedulingIgnoredDuringExecution: list[_Preferred] | None = None  # noqa: N815


class _Affinity(Struct):
    nodeAffinity: _NodeAffinity | None = None  # noqa: N815


class _Volume(Struct):
    name: str = ""
    persistentVolumeClaim: Raw = Raw(b"")  # noqa: N815
    ephemeral: Raw = Raw(b"")

    @property
    def needs_claim(self) -> bool:
        claims = (self.persistentVolumeClaim, self.ephemeral)
        return any(bytes(one) not in (b"", b"null") for one in claims)


_T = TypeVar("_T")


def _optional(raw: Raw, kind: type[_T]) -> _T | None:
    """The decoded value, or None where the field is absent or null."""
    if bytes(raw) in (b"", b"null"):
        return None
    return msgspec.json.decode(raw, type=kind)


def _node_selector(
    spec: PodSpec, affinity: _Affinity
) -> tuple[NodeSelector, tuple[Preference, ...]]:
    pairs = _optional(spec.nodeSelector, dict[str, str]) or {}
    node = affinity.nodeAffinity or _NodeAffinity()
    required = node.requiredDuringSchedulingIgnoredDuringExecution
    terms = None if required is None else tuple(_term(one) for one in required.nodeSelectorTerms)
    preferences = tuple(
        Preference(weight=one.weight, term=_term(one.preference))
        for one in node.preferredDuringSchedulingIgnoredDuringExecution or ()
    )
    return NodeSelector(pairs=tuple(sorted(pairs.items())), terms=terms), preferences


def _term(term: _Term) -> Term:
    return Term(
        labels=tuple(_requirement(one) for one in term.matchExpressions or ()),
        fields=tuple(_requirement(one) for one in term.matchFields or ()),
    )


def _requirement(one: _Expression) -> Requirement:
    return Requirement(key=one.key, operator=one.operator, values=tuple(one.values or ()))


def _has_claims(spec: PodSpec) -> bool:
    return bool(_optional(spec.resourceClaims, list[Raw]))


def _volume_claims(spec: PodSpec) -> str:
    """The first volume that may bind the pod to some nodes: muster cannot tell to which."""
    for volume in _optional(spec.volumes, list[_Volume]) or ():
        if volume.needs_claim:
            return f"volume {volume.name} needs a claim: volume claims are not supported"
    return ""


def _images(spec: PodSpec) -> Iterator[str]:
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        if container.image:
            yield image_name(container.image)


def image_name(name: str) -> str:
    """An image with its tag, as nodes list it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _volume_demand(raw: Raw) -> str:
    """The volumes that may bind a pod to some nodes; other volumes (secrets, tokens) do not matter."""
    raw_bytes = bytes(raw)
    if b'"persistentVolumeClaim"' not in raw_bytes and b'"ephemeral"' not in raw_bytes:
        return ""
    return "claims"


def _container_request(container: Container) -> Amounts:
    """A missing request takes the limit, as the API server would have it."""
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
