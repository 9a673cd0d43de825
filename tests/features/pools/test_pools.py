"""Pools of one State: who belongs where, what is asked for of the API server, and changes of the policy while it runs."""

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest

from events.daemon import PolicyChanged
from events.messages import (
    Accepted,
    Answer,
    EvictRequest,
    ObjectSeen,
    OutcomeUnknown,
    PodMarkRequest,
)
from features.pools.facts import LABEL, TRIES_MAX, PoolFacts
from features.pools.index import PoolIndex, options_of
from features.pools.job_options import read_job_options
from features.pools.working_nodes import UNLIKE_MAX
from features.table import FEATURES
from projections.job_option_keys import RELEASE_REQUESTED
from projections.snapshot import restore, take
from projections.suspensions import ACTION_RETRY_NS
from tests.scheduling.builders import SECOND, EngineHarness, gone, node, pod, raw

POOL: dict[str, object] = {
    "name": "default",
    "decider": "priority",
    "priorityDirection": "lower_first",
    "slots": ["example.com/card"],
}
POLICY: dict[str, object] = {"pools": [POOL]}


def begun(policy: dict[str, object], *raws: bytes, nodes: Iterable[bytes] = ()) -> EngineHarness:
    """Return an engine that has seen nodes and pods, before its first cycle."""
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", *(nodes or [node("n1")]))
    harness.show_all("Pod", *raws)
    harness.show_the_rest()
    return harness


def job(name: str, priority: int, cards: int, **stated: str) -> bytes:
    annotations = {
        "muster.sh/priority": str(priority),
        **{f"muster.sh/{k.replace('_', '-')}": v for k, v in stated.items()},
    }
    return pod(name, cards=cards, metadata={"annotations": annotations})


def running(name: str, priority: int, cards: int, on: str) -> bytes:
    annotations = {"muster.sh/priority": str(priority)}
    return pod(name, on=on, phase="Running", cards=cards, metadata={"annotations": annotations})


def preempted() -> tuple[EngineHarness, PodMarkRequest]:
    """Return an engine that asked the pod `old` to exit in favour of `new`, and the request."""
    harness = begun(POLICY, running("old", 9, 4, "n1"), job("new", 1, 4))
    harness.cycle()
    marks = [one for one in harness.engine.requests() if isinstance(one, PodMarkRequest)]
    return harness, marks[0]


def answer(
    harness: EngineHarness, request: PodMarkRequest, reply: Accepted | OutcomeUnknown
) -> None:
    batch = harness.engine.report([Answer(request, reply, 1, 1)], harness.now_ns)
    assert batch is not None
    harness.state.validate()


def test_a_pod_that_is_asked_to_exit_gets_an_annotation_with_its_deadline_and_the_label() -> None:
    harness, mark = preempted()
    assert (mark.namespace, mark.name, mark.uid) == ("default", "old", "uid-old")
    assert mark.annotations == {RELEASE_REQUESTED: "1970-01-01T01:00:01Z"}
    assert mark.labels == {LABEL: "true"}
    answer(harness, mark, Accepted())
    assert [one for one in harness.engine.requests() if isinstance(one, PodMarkRequest)] == []


def test_the_request_is_repeated_if_no_answer_comes_but_not_for_ever() -> None:
    harness, mark = preempted()
    for _ in range(TRIES_MAX):
        assert mark in list(harness.engine.requests())
        answer(harness, mark, OutcomeUnknown("the connection was lost"))
    assert mark not in list(harness.engine.requests())


def test_a_pod_that_has_not_exited_in_time_is_evicted_once() -> None:
    harness, _ = preempted()
    harness.cycle(3599)
    assert not [one for one in harness.engine.requests() if isinstance(one, EvictRequest)]
    harness.cycle(2)
    harness.cycle(2)
    evicted = [one for one in harness.engine.requests() if isinstance(one, EvictRequest)]
    assert [one.name for one in evicted] == ["old"]
    assert not evicted[0].is_forced


def test_what_was_asked_for_stands_after_a_restart() -> None:
    harness, _ = preempted()
    before = harness.state.cluster.tables.of(PoolFacts)
    again = restore(take(harness.state), FEATURES)
    assert again.cluster.tables.of(PoolFacts) == before
    again.validate()


def test_a_pod_group_is_in_the_pool_that_it_names_else_its_namespace_else_its_selector() -> None:
    policy: dict[str, object] = {
        "pools": [
            {"name": "default", "decider": "fair_share"},
            {"name": "big", "decider": "priority", "nodeSelector": {"kind": "big"}},
            {"name": "aux", "decider": "round_robin", "nodeSelector": {"kind": "aux"}},
        ],
        "defaultAuxPool": "aux",
    }
    gpus: dict[str, object] = {
        "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    }
    harness = begun(
        policy,
        pod("named", metadata={"annotations": {"muster.sh/pool": "big"}}),
        pod("labelled", metadata={"labels": {"determined.ai/resource_pool": "big"}}),
        pod("selecting", spec={**gpus, "nodeSelector": {"kind": "big", "x": "y"}}),
        pod("plain", spec=gpus),
        pod("auxiliary"),
        pod("lost", metadata={"annotations": {"muster.sh/pool": "none"}}),
        nodes=[node("n1"), node("n2", labels={"kind": "big"}), node("n3", labels={"kind": "aux"})],
    )
    index = harness.state.cluster.indexes.of(PoolIndex)
    assert index.nodes == {"n1": "default", "n2": "big", "n3": "aux"}
    pools = {key.removeprefix("default/podgroup-uid-"): pool for key, pool in index.groups.items()}
    assert pools == {
        "named": "big", "labelled": "big", "selecting": "big", "plain": "default", "auxiliary": "aux", "lost": "",
    }  # fmt: skip
    harness.see(
        ObjectSeen(raw("Namespace", "default", metadata={"annotations": {"muster.sh/pool": "big"}}))
    )
    assert index.groups["default/podgroup-uid-plain"] == "big"
    harness.state.validate()


def test_a_policy_without_a_pool_that_has_jobs_is_refused_unless_another_one_replaces_it() -> None:
    harness = begun(POLICY, running("old", 9, 4, "n1"))
    harness.cycle()

    def problem(*pools: dict[str, object]) -> str:
        content = msgspec.Raw(msgspec.json.encode({"pools": list(pools)}))
        return harness.engine.policy_problem(PolicyChanged(source="test", policy=content))

    other: dict[str, object] = {**POOL, "name": "other"}
    assert "pool default is missing and has 1 pod groups" in problem(other)
    assert problem({**other, "replaces": ["default"]}) == ""
    assert problem(POOL, {**other, "nodeSelector": {"a": "b"}}) == ""


def test_work_on_the_nodes_of_the_pool_before_is_released_when_its_pool_is_replaced() -> None:
    there = {"annotations": {"muster.sh/priority": "9", "muster.sh/pool": "default"}}
    old = pod("old", on="n1", phase="Running", cards=4, metadata=there)
    harness = begun(POLICY, old, nodes=[node("n1"), node("n2", labels={"a": "b"})])
    harness.cycle()
    harness.change_policy(
        {
            "pools": [
                {**POOL, "name": "rest"},
                {**POOL, "name": "other", "nodeSelector": {"a": "b"}, "replaces": ["default"]},
            ]
        }
    )
    harness.cycle()
    [mark] = [one for one in harness.engine.requests() if isinstance(one, PodMarkRequest)]
    assert mark.name == "old"


def test_a_changed_priority_restarts_no_work() -> None:
    harness = begun(POLICY, running("old", 9, 4, "n1"))
    harness.cycle()
    harness.kinds()
    harness.see(ObjectSeen(running("old", 1, 4, "n1")))
    harness.cycle()
    assert [one for one in harness.kinds() if "decided" in one] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("muster.sh/priority", "0"),
        ("muster.sh/priority", "100"),
        ("muster.sh/priority", "9" * 4000),
        ("muster.sh/weight", "0"),
        ("muster.sh/weight", "-1"),
        ("muster.sh/weight", "1e9"),
        ("muster.sh/weight", "0.0000001"),
        ("muster.sh/max-slots", "-1"),
        ("muster.sh/max-slots", "1.5"),
        ("muster.sh/queue-position", "first"),
        ("muster.sh/submitted-at", "yesterday"),
        ("muster.sh/preemptible", "yes"),
        ("muster.sh/preemption-timeout", "-1s"),
        ("muster.sh/single-node", "1"),
        ("muster.sh/pool", "a/b"),
        ("muster.sh/job", ""),
    ],
)
def test_a_value_that_cannot_be_used_is_named_and_counts_for_nothing(key: str, value: str) -> None:
    found = read_job_options({key: value})
    [(code, text)] = found.problems
    assert code == "InvalidJobOption"
    assert text.startswith(f"{key}: ")
    assert len(text) < 300
    assert msgspec.structs.replace(found, problems=()) == read_job_options({})


def test_the_labels_of_determined_say_job_kind_and_pool() -> None:
    trial = read_job_options(
        {
            "determined.ai/task_type": "TRIAL",
            "determined.ai/task_id": "12.abc",
            "determined.ai/resource_pool": "gpu",
        }
    )
    assert (trial.job, trial.pool, trial.is_preemptible) == ("12", "gpu", True)
    assert not read_job_options({"determined.ai/task_type": "NOTEBOOK"}).is_preemptible


def test_the_pod_group_counts_before_its_pods_and_pods_that_have_ended_do_not_count() -> None:
    stated = {"annotations": {"muster.sh/priority": "5", "scheduling.k8s.io/group-name": "g"}}
    ended = {"annotations": {"muster.sh/priority": "3", "scheduling.k8s.io/group-name": "g"}}
    harness = begun(
        POLICY,
        pod("a", phase="Succeeded", on="n1", metadata=ended),
        pod("b", metadata=stated),
    )
    group = harness.state.cluster.groups["default/g"]
    assert options_of(group).priority == 5
    harness.see(
        ObjectSeen(
            raw(
                "PodGroup",
                "g",
                metadata={"annotations": {"muster.sh/priority": "7"}},
                spec={"minMember": 1},
            )
        )
    )
    assert options_of(harness.state.cluster.groups["default/g"]).priority == 7


@pytest.mark.parametrize("decider", ["priority", "fair_share", "round_robin"])
def test_many_unlike_tasks_of_a_namespace_do_not_hold_up_others(decider: str) -> None:
    unlike = [
        pod(
            f"p{one}",
            cards=5,
            spec={"nodeSelector": {"x": str(one)}},
            metadata={"annotations": {"muster.sh/priority": "1"}},
        )
        for one in range(UNLIKE_MAX + 20)
    ]
    other = pod("other", cards=1, metadata={"namespace": "other"})
    harness = begun({"pools": [{**POOL, "decider": decider}]}, *unlike, other)
    harness.cycle()
    assert harness.state.cluster.pods["uid-other"].node == "n1"
    codes = Counter(
        refusal.code
        for group in harness.state.cluster.groups.values()
        for refusal in group.decided.refusals.values()
    )
    assert codes == {"INFEASIBLE": UNLIKE_MAX, "WAITING_FOR_SLOTS": 20}


def test_a_pod_that_is_terminating_at_its_deadline_makes_no_cycle_due() -> None:
    harness, _ = preempted()
    there = {
        "annotations": {"muster.sh/priority": "9"},
        "deletionTimestamp": "1970-01-01T00:30:00Z",
    }
    harness.see(ObjectSeen(pod("old", on="n1", phase="Running", cards=4, metadata=there)))
    harness.cycle(4000)
    harness.cycle()
    harness.kinds()
    harness.cycle()
    assert harness.kinds() == []
    assert not [one for one in harness.engine.requests() if isinstance(one, EvictRequest)]


def test_a_pass_that_raised_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    old = running("old", 1, 4, "n1")
    harness = begun(POLICY, old, job("new", 9, 4))
    harness.cycle()
    harness.cycle()
    harness.see(gone(old))
    with monkeypatch.context() as patched:
        patched.setattr("features.pools.decider.priority_pass", fails)
        harness.cycle()
    assert harness.kinds()[-1].startswith("action_failed")
    for _ in range(2):
        harness.cycle(ACTION_RETRY_NS // SECOND + 1)
    assert harness.state.cluster.pods["uid-new"].node == "n1"
