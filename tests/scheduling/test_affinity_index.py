"""Terms about other pods: a pod is compared with few of them, however many there are, and decisions follow all."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hostile import PLAIN, SHAPES, Load, affinity_load, begun
from engine.engine import Engine
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from features.table import FEATURES
from projections.affinity_terms import (
    COMPARISONS_MAX,
    AffinityTerms,
    SelectedAs,
    comparisons_of,
)
from projections.pod_terms import AffinityTerm, PodAffinityTerm
from projections.pods import Pod
from projections.policy.requirement import Requirement
from projections.snapshot import restore, take
from scheduling.pod_topology import index
from scheduling.work_budget import TOPOLOGY_PER_POD
from tests.properties.test_bounded_search import of_kind
from tests.scheduling.builders import EngineHarness, gone, node, raw

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

APPS: Final = ("a", "b", "c")
NAMESPACES: Final = ("one", "two")


def load(shape: str, count: int) -> Engine:
    """An engine that has read so many pods with unlike terms."""
    return begun(Load(name=shape, policy=PLAIN, objects=lambda _: affinity_load(shape, count, 2)))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_comparisons_of_an_intake_grow_with_the_pods_and_not_with_their_square(
    shape: str,
) -> None:
    few, many = (
        load(shape, count).state.cluster.inter_pod_affinity.terms.compared for count in (150, 300)
    )
    assert many <= 2 * few + COMPARISONS_MAX
    assert many <= 300 * 4


@pytest.mark.parametrize("shape", SHAPES)
def test_terms_that_come_in_one_batch_classify_waiting_pods_again_once(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(shape, 150)
    regards = engine.state.cluster.inter_pod_affinity
    asked: list[Pod] = []
    selected_as = regards.selected_as

    def counted(pod: Pod) -> SelectedAs | None:
        asked.append(pod)
        return selected_as(pod)

    monkeypatch.setattr(regards, "selected_as", counted)
    engine.cycle(2_000_000_000)
    assert len(asked) <= 2 * 150
    assert not regards.outdated
    engine.state.validate()


_requirements = st.builds(
    lambda key, operator, values: Requirement(
        key,
        operator,
        tuple(values) if operator in ("In", "NotIn") else ("1",) * (operator in ("Gt", "Lt")),
    ),
    st.sampled_from(("app", "rank")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(st.sampled_from((*APPS, "0", "2")), min_size=1, max_size=2),
)
_selectors = st.none() | st.lists(_requirements, max_size=2).map(tuple)
_terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(("host", "zone")),
    selector=_selectors,
    namespaces=st.lists(st.sampled_from(NAMESPACES), unique=True).map(tuple),
    namespace_selector=st.none()
    | st.lists(
        st.builds(Requirement, st.just("name"), st.just("In"), st.just(("one",))), max_size=1
    ).map(tuple),
)
_regards = st.builds(AffinityTerm, _terms, st.sampled_from((0, 0, 1, -5)))
_labels = st.dictionaries(
    st.sampled_from(("app", "rank", "other")), st.sampled_from((*APPS, "0", "2"))
).map(lambda found: tuple(sorted(found.items())))


def labels_of(namespace: str) -> dict[str, str]:
    """The labels of a namespace."""
    return {"name": namespace}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(_regards, max_size=6),
    st.lists(_regards, max_size=3),
    st.sampled_from(NAMESPACES),
    _labels,
)
def test_the_index_finds_what_comparing_with_each_term_finds(
    held: list[AffinityTerm],
    gone_again: list[AffinityTerm],
    namespace: str,
    labels: tuple[tuple[str, str], ...],
) -> None:
    terms = AffinityTerms()
    for sign, listed in ((1, [*held, *gone_again]), (-1, gone_again)):
        for one in listed:
            terms.count(one, sign)
    selecting = [one for one in held if one.term.matches(namespace, dict(labels), labels_of)]
    seen = terms.selected_as(namespace, labels, labels_of)
    assert (seen is not None) == bool(selecting)
    assert terms.requirements == sum(
        comparisons_of(one.term.selector) + comparisons_of(one.term.namespace_selector)
        for one in held
    )
    if seen is None:
        return
    assert seen.is_barred == any(not one.weight for one in selecting)
    assert seen.is_weighed == any(one.weight for one in selecting)
    # What is left of the labels tells as much to every term as all of them.
    for one in held:
        harness = one.term.matches(seen.namespace, dict(seen.labels), labels_of)
        assert harness == (one in selecting)
    found = terms.selecting(seen, labels_of, {"host": 1})
    for keys, is_weighing in ((found.barring, False), (found.weighing, True)):
        asked = [one for one in selecting if bool(one.weight) == is_weighing]
        assert keys == (("host",) if any(one.term.topology_key == "host" for one in asked) else ())


def test_beyond_the_bound_a_pod_counts_as_selected_without_being_compared() -> None:
    terms = AffinityTerms()
    for number in range(COMPARISONS_MAX + 1):
        selector = (Requirement("app", "NotIn", ("a", f"b{number}")),)
        terms.count(AffinityTerm(PodAffinityTerm("host", selector, ("one",))), 1)
    seen = terms.selected_as("one", (("app", "a"),), labels_of)
    assert seen == SelectedAs("one", (("app", "a"),), is_barred=True, is_weighed=False)
    assert terms.compared == COMPARISONS_MAX
    assert terms.selecting(seen, labels_of, {"host": 1}).barring == ()


def test_a_term_of_thousands_of_values_or_namespaces_is_not_filed_under_each() -> None:
    terms = AffinityTerms()
    many = tuple(f"v{number}" for number in range(5_000))
    terms.count(
        AffinityTerm(PodAffinityTerm("host", (Requirement("app", "In", many),), many[:1_000])), 1
    )
    seen = terms.selected_as("v7", (("app", "v9"),), labels_of)
    assert seen == SelectedAs("v7", (("app", "v9"),), is_barred=True, is_weighed=False)
    assert terms.selected_as("w7", (("app", "v9"),), labels_of) is None
    assert terms.selected_as("v7", (("app", "w9"),), labels_of) is None


def pod(
    name: str, *, on: str = "", affinity: dict[str, object] | None = None, **spec: object
) -> bytes:
    """A pod whose label `app` is its name."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    whole = {
        "schedulerName": "muster",
        "containers": [container],
        "affinity": affinity or {},
        **({"nodeName": on} if on else {}),
        **spec,
    }
    status = {"phase": "Running" if on else "Pending"}
    return raw("Pod", name, metadata={"labels": {"app": name}}, spec=whole, status=status)


def apart_from(app: str) -> dict[str, object]:
    """Anti-affinity by zone."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def zone() -> EngineHarness:
    """Two nodes of one zone."""
    harness = EngineHarness(policy=PLAIN)
    harness.show_all(
        "Node", *(node(name, labels={"zone": "z", "name": name}) for name in ("n1", "n2"))
    )
    return harness


def test_a_pod_that_anti_affinity_kept_away_is_placed_once_the_pod_with_the_term_is_deleted() -> (
    None
):
    harness = zone()
    holder = pod("holder", on="n1", affinity=apart_from("waits"))
    # It may use only n2, where nothing changes when the pod on n1 goes.
    harness.show_all("Pod", holder, pod("waits", nodeSelector={"name": "n2"}))
    harness.show_the_rest()
    harness.cycle()
    assert not of_kind(harness, GangBindDecided)
    harness.see(gone(holder))
    harness.cycle()
    assert len(of_kind(harness, GangBindDecided)) == 1


def test_a_snapshot_between_a_new_term_and_the_next_cycle_goes_on_like_the_state_it_was_taken_of() -> (
    None
):
    harness = zone()
    harness.show_all("Pod", pod("waits", nodeSelector={"name": "n2"}))
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("holder", on="n1", affinity=apart_from("waits"))))
    assert harness.state.cluster.inter_pod_affinity.outdated
    again = restore(take(harness.state), FEATURES)
    again.validate()
    assert take(again) == take(harness.state)
    other = zone()
    other.engine = Engine(again, harness.engine.head)
    other.now_ns = harness.now_ns
    for one in (harness, other):
        one.cycle()
    assert take(other.state) == take(harness.state)


@pytest.mark.parametrize("kept", [1, 1_000])
def test_counts_of_pods_that_are_dropped_within_a_cycle_are_counted_as_work_again(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "COUNTS_MAX", kept)
    engine = load("matchLabels", 20)
    engine.cycle(2_000_000_000)
    work = engine.decider.session.work
    classes = [one.pod_class for one in engine.state.cluster.pods.values()][:2]
    counted: list[int] = []
    for pod_class in 3 * classes:
        before = work.done
        work.add_pod(pod_class)
        counted.append(work.done - before)
    # Where both are kept, only the first attempts count them.
    assert counted[-1] < 100 if kept > 1 else counted[-1] >= 20 * TOPOLOGY_PER_POD
