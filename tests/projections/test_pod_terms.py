"""What pods ask about other pods, read from their specifications."""

from events.normalize import JsonObject
from projections.objects import PodObject, read
from projections.pod_class import ClassKey, PodClass, parse_class
from projections.pod_terms import HostPort
from projections.pods import pod_facts
from tests.scheduling.builders import ALL_FAMILIES, raw

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _pod(spec: JsonObject, namespace: str = "default", **labels: str) -> PodObject:
    containers: JsonObject = {"containers": [{"name": "main"}]}
    meta: JsonObject = {"namespace": namespace, "labels": dict(labels)}
    found = read(PodObject, raw("Pod", "a", metadata=meta, spec={**containers, **spec}))
    assert not isinstance(found, str)
    return found


def _near(**term: object) -> JsonObject:
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}}  # type: ignore[dict-item]  # any part of a term


def _class(spec: JsonObject, **labels: str) -> PodClass:
    return parse_class(0, _pod(spec, **labels), ALL_FAMILIES)


def _covers(pod_class: PodClass, namespace: str = "default", **labels: str) -> bool:
    [term] = pod_class.terms.required_affinity
    return term.matches(namespace, labels, lambda name: {"kubernetes.io/metadata.name": name})


def test_a_missing_selector_matches_no_pods_and_an_empty_one_all() -> None:
    assert not _covers(_class(_near()), app="x")
    assert _covers(_class(_near(labelSelector={})), app="x")


def test_a_term_means_its_own_namespace_unless_it_says_otherwise() -> None:
    plain = _class(_near(labelSelector={}))
    assert not _covers(plain, "other")
    assert _covers(_class(_near(labelSelector={}, namespaces=["other"])), "other")
    everywhere = _class(_near(labelSelector={}, namespaceSelector={}))
    assert _covers(everywhere)
    assert _covers(everywhere, "other")
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    selected = _class(_near(labelSelector={}, namespaceSelector=chosen))
    assert _covers(selected, "other")
    assert not _covers(selected)


def test_match_label_keys_and_mismatch_label_keys_narrow_a_term() -> None:
    same = _class(_near(labelSelector={}, matchLabelKeys=["version"]), version="1")
    assert _covers(same, version="1")
    assert not _covers(same, version="2")
    other = _class(_near(labelSelector={}, mismatchLabelKeys=["version"]), version="1")
    assert not _covers(other, version="1")
    assert _covers(other, version="2")
    assert _covers(_class(_near(labelSelector={}, matchLabelKeys=["version"])), version="2")


def _key(pod: PodObject) -> ClassKey:
    return pod_facts(pod, ALL_FAMILIES)[1]


def test_pods_are_alike_as_long_as_no_term_looks_at_what_differs() -> None:
    spec = _near(labelSelector={"matchLabels": {"app": "x"}})
    key = _key(_pod(spec, app="x", index="1"))
    assert key == _key(_pod(spec, app="x", index="2"))
    assert key != _key(_pod(spec, app="y", index="1"))
    assert key != _key(_pod(spec, "other", app="x", index="1"))
    assert _key(_pod({}, app="x")) == _key(_pod({}, "other", app="y"))


def test_ports_collide_on_one_address_or_on_all() -> None:
    every, one, two = (HostPort(ip, "TCP", 80) for ip in ("0.0.0.0", "10.0.0.1", "10.0.0.2"))  # noqa: S104  # the wildcard itself
    assert every.collides(one)
    assert one.collides(every)
    assert one.collides(one)
    assert not one.collides(two)
    assert not every.collides(HostPort("0.0.0.0", "UDP", 80))  # noqa: S104


def test_a_term_that_cannot_be_read_is_a_reason() -> None:
    broken = _class({"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}})
    assert "topologyKey" in broken.unsupported
