"""Whatever text an object holds, reading it gives a value or a fault of the object."""

from collections.abc import Callable
from contextlib import suppress
from time import process_time  # noqa: TID251 - the soak test compares growth
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.duration import nanoseconds
from events.limits import DEPTH_MAX, is_too_deep, name_problem, quoted, tame, whole_number
from events.normalize import normalize
from projections.cards import parse_quota
from projections.disruption_budgets import BudgetObject, budget_facts
from projections.foreign_pod_groups import schedulers_of
from projections.group_facts import group_facts
from projections.hyper_nodes import HyperNodeFacts, HyperNodeObject, hyper_node_facts
from projections.nodes import node_facts
from projections.objects import (
    NodeObject,
    PodGroupObject,
    QueueObject,
    nanoseconds_of,
    read,
    readable_pod,
)
from projections.pod_class import parse_class
from projections.pod_reading import pod_reader
from projections.quantity import QuantityError, cpu_milli, memory_bytes, whole
from projections.queues import queue_facts
from tests.scheduling.builders import ALL_FAMILIES

UNITS: Final = (
    "9", "0", "1", ".", "-", "+", "e", "1e9", "[", "{", '{"a":', "]", '"', "\\", "a", "a+", "(a+)+", "(",
    "x*", "|", "A|", "/", "1/", "1h", "1", "Ki", "\x00", "\u00e9", "\U0001f600", " ", "\n", ",", "2026-", ":",
)  # fmt: skip
"""Texts are made of repetitions of these, with an end that spoils the whole."""

ENDS: Final = ("", "x", "!", "0", "s", "]", "}", "$", '"')
SHORT_BYTES, LONG_BYTES = 8_192, 65_536
"""Sizes of the texts whose work is compared; the readers of whole objects put each in twenty places."""


def texts(most: int) -> st.SearchStrategy[str]:
    """Any text, and texts that are made to take long."""
    repeated = st.builds(
        lambda unit, count, end: unit * min(count, most // len(unit.encode())) + end,
        st.sampled_from(UNITS),
        st.sampled_from((1, 5, 70, 300, 5_000, most)),
        st.sampled_from(ENDS),
    )
    return st.one_of(st.text(max_size=40), repeated)


def amount(text: str) -> None:
    """A quantity, in each unit."""
    for read_it in (cpu_milli, memory_bytes, whole):
        with suppress(QuantityError):
            assert abs(read_it(text)) < 1 << 63


def duration(text: str) -> None:
    """A span of time."""
    with suppress(ValueError):
        assert nanoseconds(text) >= 0


def small(text: str) -> None:
    """Everything that reads a text alone."""
    amount(text)
    duration(text)
    assert abs(nanoseconds_of(text)) <= 1 << 62
    assert abs(whole_number(text) or 0) < 1 << 31
    assert len(name_problem(text)) < 1_000
    assert len(quoted(text)) < 1_000
    quota = parse_quota(text)
    assert isinstance(quota, dict) or len(quota) < 1_000


def pod_of(text: str) -> bytes:
    """A pod with a text wherever one may be."""
    keys = (
        "scheduling.k8s.io/group-name", "scheduling.volcano.sh/queue-name", "volcano.sh/card.name",
        "volcano.sh/task-spec", "volcano.sh/task-index", "volcano.sh/task-priority", "volcano.sh/preemptable",
        "scheduling.volcano.sh/group-min-member",
    )  # fmt: skip
    selector = {"matchExpressions": [{"key": text, "operator": "Gt", "values": [text]}]}
    metadata = {
        "name": "p",
        "namespace": "default",
        "uid": "u",
        "creationTimestamp": text,
        "annotations": dict.fromkeys(keys, text),
        "labels": {"pod-group.scheduling.sigs.k8s.io/min-available": text, text: text},
        "ownerReferences": [{"kind": text, "name": text, "uid": text, "controller": True}],
    }
    spec = {
        "containers": [{"image": text, "resources": {"requests": {"cpu": text, text: text}}}],
        "nodeSelector": {text: text},
        "tolerations": [{"key": text, "operator": text, "value": text}],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": text, "labelSelector": selector, "namespaces": [text]}
                ]
            }
        },
        "volumes": [{"name": text, "persistentVolumeClaim": {"claimName": text}}],
        "schedulerName": text,
    }
    return msgspec.json.encode({"kind": "Pod", "metadata": metadata, "spec": spec})


def objects_of(text: str) -> None:
    """Every kind of object with a text wherever one may be."""
    names = ("volcano.sh/card.quota", "volcano.sh/card.request", "volcano.sh/sla-waiting-time")
    paths = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")
    metadata = {"name": "a", "uid": "u", "annotations": dict.fromkeys((*names, *paths), text)}
    amounts = {"cpu": text, text: text}
    group = {
        "queue": text,
        "minResources": amounts,
        "minTaskMember": {text: 1},
        "networkTopology": {"mode": text, "highestTierName": text},
    }
    queue = {"capability": amounts, "guarantee": {"resource": amounts}, "parent": text}
    members = [
        {"type": "Node", "selector": {"regexMatch": {"pattern": text}}},
        {"type": "HyperNode", "selector": {"exactMatch": {"name": text}}},
        {"type": text, "selector": {"labelMatch": {"matchLabels": {text: text}}}},
    ]

    def made(**parts: object) -> bytes:
        return normalize(
            msgspec.json.encode({"kind": "Any", "metadata": metadata, **parts})
        ).stored.content

    content = made(spec=group, status={"phase": text})
    found = read(PodGroupObject, content)
    assert isinstance(found, str) or len(group_facts(found, ALL_FAMILIES).problem) < 2_000
    content = made(spec=queue, status={"allocated": amounts})
    asked = read(QueueObject, content)
    assert isinstance(asked, str) or all(len(one) < 3_000 for _, one in queue_facts(asked).faults)
    nodes = read(NodeObject, made(status={"allocatable": amounts, "capacity": amounts}))
    assert isinstance(nodes, str) or node_facts(nodes, ALL_FAMILIES).name == "a"
    hyper = read(HyperNodeObject, made(spec={"tier": 1, "members": members}))
    if not isinstance(hyper, str):
        facts: HyperNodeFacts = hyper_node_facts(hyper)
        facts.selects("a" * 253, {"b": "c"})
    budget = read(BudgetObject, made(spec={"minAvailable": text}))
    assert isinstance(budget, str) or budget_facts(budget).name == "a"
    schedulers_of(made(spec={"schedulerName": text}))


def pods_of(text: str) -> None:
    """A pod with the text, down to its class."""
    content = normalize(pod_of(text)).stored.content
    found = pod_reader(ALL_FAMILIES).read_facts(content)
    assert not isinstance(found, str)
    assert (
        len(parse_class(0, readable_pod(content), ALL_FAMILIES, found[0].problem).unsupported)
        < 2_000
    )


def tamed(text: str) -> None:
    """JSON, or nearly, of any depth."""
    raw = text.encode(errors="replace")
    for whole_text in (raw, b'{"a":' + raw + b"}", b'"' + raw + b'"'):
        kept = tame(whole_text)
        assert len(kept) <= 2 * len(whole_text) + 100
        try:
            msgspec.json.decode(kept)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # Not JSON before, and not JSON now; but never a RecursionError.
        assert not is_too_deep(kept)


READERS: Final[dict[str, Callable[[str], None]]] = {
    "small": small,
    "objects": objects_of,
    "pods": pods_of,
    "tamed": tamed,
}


@pytest.mark.parametrize("reader", READERS)
@given(text=texts(20_000))
def test_any_text_gives_a_value_or_an_error(reader: str, text: str) -> None:
    READERS[reader](text)


@given(depth=st.integers(0, 3 * DEPTH_MAX), unit=st.sampled_from(['{"a":', "[", '{"b":[']))
def test_nesting_beyond_the_bound_is_cut_and_the_rest_is_kept(depth: int, unit: str) -> None:
    closing = {"{": "}", "[": "]"}
    end = "".join(closing[one] for one in reversed(unit) if one in closing)
    raw = (unit * depth + "1" + end * depth).encode()
    levels = depth * len(end)
    assert is_too_deep(raw) is (levels > DEPTH_MAX)
    kept = tame(raw)
    assert (kept == raw) is (levels <= DEPTH_MAX)
    msgspec.json.decode(kept)


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_the_work_grows_with_the_text_and_no_faster(reader: str, unit: str) -> None:
    """Eight times the text takes well below the 64 times that quadratic work would."""

    def seconds(size: int) -> float:
        spent: list[float] = []
        for end in ENDS[:3]:
            text = unit * (size // len(unit.encode())) + end
            began = process_time()
            READERS[reader](text)
            spent.append(process_time() - began)
        return sum(spent)

    short = max(seconds(SHORT_BYTES), 0.002)
    assert seconds(LONG_BYTES) < 30 * short
