"""Terms of a pod about other pods: affinity and anti-affinity, topology spread, host ports.

Sources: the Kubernetes API (PodAffinityTerm, TopologySpreadConstraint, ContainerPort). A missing selector selects
nothing, an empty one everything. `matchLabelKeys` are added to the selector here, as the API server does.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from events.sized_cache import lengths, sized_cache
from projections.objects import Container, Few, FewPairs, Int32, Many, PodSpec, Weight
from projections.policy.requirement import Requirement

TERMS_BYTES_MAX: Final = 2 << 20
"""Bytes of affinity and spread constraints for which the referenced labels are cached."""

LABELS_BYTES_MAX: Final = 8 << 20
"""Bytes of labels that are shared by all pods that have the same."""

LABEL_BYTES: Final = 160
"""Memory of a label in addition to its text: two strings and a pair."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""The labels of an object, sorted by key."""

Selector: TypeAlias = tuple[Requirement, ...]
"""Requirements on labels that must all be satisfied; an empty one selects everything."""

LabelsOf: TypeAlias = Callable[[str], Mapping[str, str]]
"""The labels of a namespace."""

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # nothing is bound here: pods that name no address mean this one
REQUIRED_WEIGHT: Final = 1
"""Weight that the required affinity of a pod adds to the score of nodes for the pods that it selects."""


class PodAffinityTerm(Struct, frozen=True, array_like=True):
    """Pods of some namespaces with some labels, in the same domain of a topology."""

    topology_key: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], labels_of: LabelsOf) -> bool:
        """Return whether the term selects a pod of this namespace with these labels."""
        if not selects(self.selector, labels):
            return False
        if namespace in self.namespaces:
            return True
        wanted = self.namespace_selector
        return wanted is not None and selects(wanted, labels_of(namespace))


class AffinityTerm(Struct, frozen=True):
    """A term of a pod with its weight: positive for affinity, negative for preferred anti-affinity.

    Weight 0 is required anti-affinity.
    """

    term: PodAffinityTerm
    weight: int = 0


class Spread(Struct, frozen=True):
    """A topology spread constraint."""

    topology_key: str
    max_skew: int
    selector: Selector | None
    is_hard: bool
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether nodes that the pod does not select are excluded (nodeAffinityPolicy)."""
    honors_taints: bool = False
    """Whether nodes with taints that the pod does not tolerate are excluded (nodeTaintsPolicy)."""


class HostPort(Struct, frozen=True):
    """A port of the node (hostPort)."""

    address: str
    protocol: str
    port: int

    def collides(self, other: "HostPort") -> bool:
        """Return whether the two cannot be used on one node together."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


class PodTerms(Struct, frozen=True):
    """All terms of a pod about other pods."""

    namespace: str = ""
    labels: Labels = ()
    """Those of its own labels that its terms reference."""
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    """Required affinity."""
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    """Required anti-affinity."""
    preferred: tuple[AffinityTerm, ...] = ()
    """Preferred affinity and anti-affinity."""
    spread: tuple[Spread, ...] = ()
    ports: tuple[HostPort, ...] = ()

    @property
    def affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Return its terms about pods in the same domain, with weights."""
        kept_away = tuple(AffinityTerm(term=one) for one in self.required_anti_affinity)
        wanted = tuple(
            AffinityTerm(term=one, weight=REQUIRED_WEIGHT) for one in self.required_affinity
        )
        return kept_away + wanted + self.preferred

    @property
    def depends_on_other_pods(self) -> bool:
        """Return whether its placement depends on which pods are in which domain."""
        return bool(
            self.required_affinity or self.required_anti_affinity or self.preferred or self.spread
        )


NO_TERMS: Final = PodTerms()


def selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Return whether the selector selects an object with these labels."""
    if selector is None:
        return False
    return all(one.matches(labels.get(one.key)) for one in selector)


def pod_terms(spec: PodSpec, namespace: str, labels: Mapping[str, str]) -> PodTerms:
    """Return the terms of a pod. Raise msgspec.ValidationError."""
    ports = tuple(_host_ports(spec))
    keys = referenced_labels(bytes(spec.affinity), bytes(spec.topologySpreadConstraints))
    if keys is None:
        return PodTerms(ports=ports) if ports else NO_TERMS
    affinity = _decoded(spec.affinity, _Affinity) or _Affinity()
    near, apart = affinity.podAffinity or _Rules(), affinity.podAntiAffinity or _Rules()
    read = _Reader(namespace, labels)
    return PodTerms(
        namespace=namespace,
        labels=tuple((key, labels[key]) for key in keys if key in labels),
        required_affinity=tuple(
            map(read.term, near.requiredDuringSchedulingIgnoredDuringExecution or ())
        ),
        required_anti_affinity=tuple(
            map(read.term, apart.requiredDuringSchedulingIgnoredDuringExecution or ())
        ),
        preferred=tuple(read.wishes(near, 1)) + tuple(read.wishes(apart, -1)),
        spread=tuple(map(read.spread, _spreads(spec.topologySpreadConstraints))),
        ports=ports,
    )


def referenced_labels(affinity: bytes, spreads: bytes) -> tuple[str, ...] | None:
    """Return the keys of the pod's own labels that its terms reference; None without terms."""
    return _referenced_labels((affinity, spreads))


@sized_cache(TERMS_BYTES_MAX, lengths)
def _referenced_labels(terms: tuple[bytes, bytes]) -> tuple[str, ...] | None:
    affinity, spreads = terms
    if b'"podA' not in affinity and spreads in (b"", b"null", b"[]"):
        return None
    try:
        found = _decoded(Raw(affinity), _Affinity) or _Affinity()
        asked = [one for rules in (found.podAffinity, found.podAntiAffinity) for one in _all(rules)]
        listed: list[_Term | _Spread] = [*asked, *_spreads(Raw(spreads))]
    except msgspec.ValidationError:
        return ()  # Such pods are refused.
    keys: dict[str, None] = {}
    for one in listed:
        keys.update(dict.fromkeys(asked.key for asked in _selector(one.labelSelector) or ()))
        keys.update(dict.fromkeys(one.matchLabelKeys or ()))
        if isinstance(one, _Term):
            keys.update(dict.fromkeys(one.mismatchLabelKeys or ()))
    return tuple(sorted(keys))


class _Expression(Struct):
    key: str
    operator: str
    values: Many[str] | None = None


class _Selector(Struct):
    matchLabels: FewPairs | None = None  # noqa: N815
    matchExpressions: Few[_Expression] | None = None  # noqa: N815


class _Term(Struct):
    topologyKey: str  # noqa: N815
    labelSelector: _Selector | None = None  # noqa: N815
    namespaces: Few[str] | None = None
    namespaceSelector: _Selector | None = None  # noqa: N815
    matchLabelKeys: Few[str] | None = None  # noqa: N815
    mismatchLabelKeys: Few[str] | None = None  # noqa: N815


class _Weighted(Struct):
    weight: Weight
    podAffinityTerm: _Term  # noqa: N815


class _Rules(Struct):
    requiredDuringSchedulingIgnoredDuringExecution: Few[_Term] | None = None  # noqa: N815
    preferredDuringSchedulingIgnoredDuringExecution: Few[_Weighted] | None = None  # noqa: N815


class _Affinity(Struct):
    podAffinity: _Rules | None = None  # noqa: N815
    podAntiAffinity: _Rules | None = None  # noqa: N815


class _Spread(Struct):
    topologyKey: str  # noqa: N815
    maxSkew: Int32 = 1  # noqa: N815
    whenUnsatisfiable: str = "DoNotSchedule"  # noqa: N815
    labelSelector: _Selector | None = None  # noqa: N815
    minDomains: Int32 | None = None  # noqa: N815
    nodeAffinityPolicy: str | None = None  # noqa: N815
    nodeTaintsPolicy: str | None = None  # noqa: N815
    matchLabelKeys: Few[str] | None = None  # noqa: N815


class _Port(Struct):
    hostPort: Int32 | None = None  # noqa: N815
    hostIP: str | None = None  # noqa: N815
    protocol: str | None = None


_AFFINITY: Final = msgspec.json.Decoder(_Affinity)
_SPREADS: Final = msgspec.json.Decoder(Few[_Spread])
_PORTS: Final = msgspec.json.Decoder(Few[_Port])


def _decoded(raw: Raw, kind: type[_Affinity]) -> _Affinity | None:
    return None if bytes(raw) in (b"", b"null") else _AFFINITY.decode(raw)


def _spreads(raw: Raw) -> list[_Spread]:
    return [] if bytes(raw) in (b"", b"null") else _SPREADS.decode(raw)


def _all(rules: _Rules | None) -> Iterable[_Term]:
    if rules is None:
        return
    yield from rules.requiredDuringSchedulingIgnoredDuringExecution or ()
    for one in rules.preferredDuringSchedulingIgnoredDuringExecution or ():
        yield one.podAffinityTerm


def label_selector(raw: Raw) -> Selector | None:
    """Return a label selector of an object. Raise msgspec.ValidationError."""
    return None if not raw else _selector(msgspec.json.decode(raw, type=_Selector | None))


def _selector(given: _Selector | None) -> Selector | None:
    if given is None:
        return None
    pairs = sorted((given.matchLabels or {}).items())
    return tuple(Requirement(key, "In", (value,)) for key, value in pairs) + tuple(
        Requirement(one.key, one.operator, tuple(one.values or ()))
        for one in given.matchExpressions or ()
    )


def _host_ports(spec: PodSpec) -> Iterable[HostPort]:
    """Yield the host ports of containers that run as long as the pod."""
    sidecars = [one for one in spec.initContainers or () if one.restartPolicy == "Always"]
    for container in (*sidecars, *(spec.containers or ())):
        yield from _ports_of(container)


def _ports_of(container: Container) -> Iterable[HostPort]:
    raw = bytes(container.ports)
    if b'"hostPort"' not in raw:
        return
    for one in _PORTS.decode(raw):
        if one.hostPort:
            yield HostPort(one.hostIP or ANY_ADDRESS, one.protocol or "TCP", one.hostPort)


class _Reader:
    """Reader of the terms of one pod."""

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._labels = labels

    def term(self, given: _Term) -> PodAffinityTerm:
        named = tuple(sorted(given.namespaces or ()))
        if not named and given.namespaceSelector is None:
            named = (self._namespace,)
        return PodAffinityTerm(
            topology_key=given.topologyKey,
            selector=self._narrowed(
                given.labelSelector, given.matchLabelKeys, given.mismatchLabelKeys
            ),
            namespaces=named,
            namespace_selector=_selector(given.namespaceSelector),
        )

    def wishes(self, rules: _Rules, sign: int) -> Iterable[AffinityTerm]:
        for one in rules.preferredDuringSchedulingIgnoredDuringExecution or ():
            if one.weight:
                yield AffinityTerm(term=self.term(one.podAffinityTerm), weight=sign * one.weight)

    def spread(self, given: _Spread) -> Spread:
        return Spread(
            topology_key=given.topologyKey,
            max_skew=given.maxSkew,
            selector=self._narrowed(given.labelSelector, given.matchLabelKeys, None),
            is_hard=given.whenUnsatisfiable != "ScheduleAnyway",
            min_domains=given.minDomains or 1,
            honors_affinity=given.nodeAffinityPolicy != "Ignore",
            honors_taints=given.nodeTaintsPolicy == "Honor",
        )

    def _narrowed(
        self, given: _Selector | None, same: list[str] | None, other: list[str] | None
    ) -> Selector | None:
        selector = _selector(given)
        if selector is None:
            return None
        more = [
            Requirement(key, "In", (self._labels[key],))
            for key in same or ()
            if key in self._labels
        ]
        more += [
            Requirement(key, "NotIn", (self._labels[key],))
            for key in other or ()
            if key in self._labels
        ]
        return selector + tuple(one for one in more if one not in selector)


def size_of(labels: Labels) -> int:
    """Return the approximate bytes of labels."""
    return sum([len(name) + len(value) + LABEL_BYTES for name, value in labels])


class _SharedLabels:
    """Labels of which each is kept once, however many pods have it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._sets: dict[Labels, Labels] = {}
        self._bytes = 0

    def of(self, labels: Labels) -> Labels:
        """Return the same labels, shared by all pods that have them, as a whole or one by one."""
        if (found := self._sets.get(labels)) is not None:
            return found
        known = self._known
        for label in labels:
            if label not in known:
                self._bytes += len(label[0]) + len(label[1]) + LABEL_BYTES
                known[label] = label
        found = tuple(map(known.__getitem__, labels))
        self._sets[found] = found
        self._bytes += LABEL_BYTES * (len(found) + 1)
        if self._bytes > LABELS_BYTES_MAX:
            # Those that pods still have are shared again as they are read.
            self._known, self._sets, self._bytes = {}, {}, 0
        return found


shared: Final = _SharedLabels().of
"""Returns the same labels, shared by all pods that have them, as a whole or one by one."""
