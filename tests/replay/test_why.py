"""Why: each kind of waiting with its numbers, each choice with its scores, then and now."""

import msgspec
import pytest
from msgspec import structs

from daemon.log.entry import Entry
from events.codec import encode, event_of
from events.errors import UsageError
from events.outcome import BindFailed
from features.table import FEATURES
from projections import snapshot
from projections.state import State
from replay.log_time import HEAD, LogTime, parse_log_time
from replay.why import Inquiry
from replay.why_answer import Answer
from replay.why_subject import candidates
from replay.why_text import lines_of
from scheduling.explanation import JudgedNode, Limit, Waiting
from tests.builders import recorded

NODES = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H200, zone: a}}
    status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 2}}
    count: 3
  - kind: Queue
    metadata: {name: q1, annotations: {volcano.sh/card.quota: '{"H200": 3}'}}
    spec: {capability: {cpu: 40}}
"""

PODS = """\
  - kind: Pod
    metadata:
      name: "a-{i}"
      annotations: {scheduling.volcano.sh/queue-name: q1, volcano.sh/card.name: H200}
    spec: {containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}
    count: 4
"""

QUOTA = (
    NODES
    + PODS
    + """\
steps:
  - {at: 5s, delete: [{kind: Pod, namespace: default, name: a-2}]}
until: 10s
"""
)

FOREIGN_POD = """\
  - kind: Pod
    metadata: {name: there}
    spec: {nodeName: n1, containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

FIRST_LIST = 21
"""Position at which all of these scenarios' clusters have been shown."""

GANG = """\
  - kind: PodGroup
    metadata: {name: g}
    spec: {minMember: 3, queue: q1}
"""


def gang_pods(count: int, *, cards: int = 1, more: str = "") -> str:
    """Pods of the group g; `more` goes into their spec."""
    return f"""\
  - kind: Pod
    metadata:
      name: "g-{{i}}"
      annotations: {{scheduling.k8s.io/group-name: g, volcano.sh/card.name: H200}}
    spec: {{containers: [{{resources: {{limits: {{cpu: 1, nvidia.com/gpu: {cards}}}}}}}]{more}}}
    count: {count}
"""


def ask(entries: list[Entry], subject: str, moment: LogTime = HEAD) -> Answer:
    """The answer from a log."""
    inquiry = Inquiry(subject, moment)
    for one in entries:
        if not inquiry.take(one.record, one.content):
            break
    return inquiry.answer()


def waiting(answer: Answer) -> Waiting:
    """What it waits for; that it waits is part of the test."""
    assert answer.waiting is not None
    return answer.waiting


def failing(answer: Answer) -> list[tuple[str, str]]:
    """The levels that are not passed, with the beginning of what is said."""
    return [(one.level, one.text[:40]) for one in waiting(answer).hurdles if not one.passed]


async def test_why_reports_the_quota_numbers_of_the_queue() -> None:
    answer = ask(await recorded(QUOTA), "a-4", parse_log_time("4s"))
    assert answer.state == "waits: InsufficientScalarQuota"
    assert failing(answer)[0] == ("admission", "Queue <q1> has insufficient <H200> quota")
    assert waiting(answer).admission == (
        Limit("H200", used=3, reserved=0, requested=1, limit=3),
        Limit("cpu", used=3000, reserved=0, requested=1000, limit=40_000),
    )
    assert [one.short for one in waiting(answer).admission] == [1, 0]


async def test_why_reports_card_holders_and_pod_groups_ahead_in_the_queue() -> None:
    entries = await recorded((NODES + PODS).replace("count: 4", "count: 5"))
    answer = ask(entries, "default/a-5")
    [held] = waiting(answer).held
    assert (held.name, held.allocated, held.total, held.queues) == ("H200", 3, 6, {"q1": 3})
    assert len(held.holders) == 3
    line = waiting(answer).line
    assert line is not None
    assert (line.action, line.place, line.of, len(line.ahead)) == ("enqueue", 2, 2, 1)


async def test_what_waited_then_may_run_now_and_the_chain_says_what_made_room() -> None:
    answer = ask(await recorded(QUOTA), "default/a-4")
    assert (answer.state[:13], answer.waiting) == ("running on n1", None)
    kinds = [step.kind.partition(".")[0] for step in answer.steps]
    assert kinds == [
        "object_observed",
        "pod_group_unschedulable",
        "object_deleted",
        "enqueue_decided",
        "gang_bind_decided",
        "pod_bound",
        "object_observed",
        "object_observed",
    ]
    freed = answer.steps[2]
    assert (freed.text, freed.at) == ("pod default/a-2 is gone", "5.000s")
    assert answer.steps[3].cause == freed.position
    assert answer.steps[4].position == answer.decision


async def test_why_reports_the_scores_of_the_bound_node_and_of_the_next_best() -> None:
    answer = ask(await recorded(NODES + PODS), "a-2")
    [choice] = answer.choices
    assert (choice.pod, choice.node, choice.nodes, choice.candidates) == ("default/a-2", "n1", 3, 3)
    assert choice.agrees
    assert choice.cards == {"H200": 1}
    first, second = choice.ranked[:2]
    assert isinstance(first, JudgedNode)
    assert (first.node, second.node) == ("n1", "n2")
    assert first.free == {"cpu": 63_000, "nvidia.com/gpu": 1}
    assert all(sum(one.parts.values()) == one.score for one in choice.ranked)
    assert choice.limits[0] == Limit("H200", used=1, reserved=0, requested=1, limit=3)


async def test_why_explains_a_deleted_pod() -> None:
    answer = ask(await recorded(QUOTA), "Pod/default/a-2")
    assert answer.state.startswith("gone since ")
    assert answer.state.endswith("(5.000s); last seen Running on n1")
    assert answer.choices[0].node == "n1"
    assert answer.steps[-1].kind == "object_deleted.v1"


async def test_why_reports_how_many_pods_an_incomplete_gang_has() -> None:
    answer = ask(await recorded(NODES + GANG + gang_pods(2)), "PodGroup/default/g")
    assert ("gang", "pod group has 2 of the 3 pods it needs") in failing(answer)
    assert answer.facts["pods"] == "2 pending"
    assert len(answer.lists["pods"]) == 2


async def test_why_reports_the_nearest_nodes_of_a_pending_pod() -> None:
    answer = ask(await recorded(NODES + GANG + gang_pods(3, cards=3)), "default/g")
    nodes = waiting(answer).nodes
    assert nodes is not None
    assert (nodes.total, nodes.fitting, nodes.large_enough) == (3, 0, 0)
    assert nodes.reasons == {"Insufficient nvidia.com/gpu": 3}
    assert [(one.node, one.lacks) for one in nodes.nearest] == [
        (name, {"nvidia.com/gpu": 1}) for name in ("n1", "n2", "n3")
    ]
    assert "it would fit none of them even if they were empty" in "\n".join(lines_of(answer))


async def test_why_reports_requested_cards_without_quota() -> None:
    other = """\
  - kind: Node
    metadata: {name: other, labels: {nvidia.com/gpu.product: H100}}
    status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 2}}
"""
    pods = PODS.replace("card.name: H200", "card.name: H200|H100").replace("cpu: 1,", "cpu: 30,")
    answer = ask(await recorded(NODES + other + pods), "default/a-2")
    [text] = [one.text for one in waiting(answer).hurdles if one.level == "card"]
    assert text == "queue q1 allows default/a-2 to use H200; it has no quota of H100"


async def test_why_reports_the_predicate_that_excludes_a_node() -> None:
    entries = await recorded(NODES + GANG + gang_pods(3, more=", nodeSelector: {zone: b}"))
    nodes = waiting(ask(entries, "g-1")).nodes
    assert nodes is not None
    assert nodes.nearest[0].obstacle == "node does not match zone=b"
    [excluded] = ask(entries, "Node/n2").lists["excluded_pods"]
    assert excluded == "3 like default/g-1: node does not match zone=b"


async def test_why_groups_records_of_a_gang_and_shows_one_choice_per_equivalence_class() -> None:
    answer = ask(await recorded(NODES + GANG + gang_pods(3)), "default/g")
    seen = next(step for step in answer.steps if "g-1 is seen: Pending" in step.text)
    assert seen.count == 3
    assert [choice.pod for choice in answer.choices] == ["default/g-1"]
    assert (answer.state, answer.facts["pods"]) == ("Running", "3 running")


async def test_a_pod_with_gates_is_held_back_and_one_of_another_scheduler_is_not_ours() -> None:
    gated = PODS.replace("spec: {", "spec: {schedulingGates: [{name: hold}], ")
    foreign = PODS.replace("a-{i}", "b-{i}").replace("spec: {", "spec: {schedulerName: other, ")
    entries = await recorded(NODES + gated + foreign + "until: 5s\n")
    assert ask(entries, "a-1").state == "waits for its scheduling gates to be removed"
    assert ask(entries, "b-1").state == "Pending; it belongs to scheduler other"


async def test_why_reports_a_missing_pod_group() -> None:
    answer = ask(await recorded(NODES + gang_pods(1)), "g-1")
    assert failing(answer)[0] == ("queue", "PodGroup default/g does not exist")


async def test_before_the_first_list_is_whole_nothing_is_decided() -> None:
    entries = await recorded(NODES + PODS)
    last = next(one for one in entries if one.record.subject == "Pod/default/a-4").record
    answer = ask(entries, "a-1", LogTime(position=last.position))
    assert failing(answer)[0][0] == "cluster"
    assert "list of Pod is complete" in waiting(answer).hurdles[0].text


async def test_why_of_a_node_reports_its_pods_free_resources_and_history() -> None:
    answer = ask(await recorded(QUOTA), "Node/n1")
    assert answer.state == "open, 2 pods on it"
    assert answer.facts["free"] == "0 nvidia.com/gpu, 62 cpu, 1Ti memory"
    assert [line.split(":")[0] for line in answer.lists["pods"]] == [
        "default/a-1 running",
        "default/a-4 running",
    ]
    kinds = [step.kind.partition(".")[0] for step in answer.steps]
    decided = "gang_bind_decided"
    assert kinds == ["object_observed", decided, decided, "object_deleted", decided]
    assert answer.steps[0].text.startswith("node n1 ")
    assert answer.steps[3].text.startswith("pod default/")


async def test_why_of_a_queue_reports_its_quota_and_pending_pod_groups() -> None:
    answer = ask(await recorded(QUOTA), "Queue/q1", parse_log_time("4s"))
    assert answer.lists["quota"][0] == "H200: 3 used, 1 requested by waiting pods, limit 3"
    [first] = answer.lists["line_for_enqueue"]
    assert "InsufficientScalarQuota" in first


async def test_an_answer_is_the_same_as_text_and_as_json() -> None:
    entries = await recorded(QUOTA)
    for subject in ("a-1", "default/a-2", "Node/n1", "Queue/q1"):
        answer = ask(entries, subject)
        assert answer.state in lines_of(answer)[0]
        assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer


async def test_every_subject_has_an_answer_at_every_moment() -> None:
    entries = await recorded(QUOTA)
    for position in range(FIRST_LIST, len(entries) + 1):
        for subject in ("a-1", "a-2", "a-4", "Node/n1", "n3", "q1", "default/podgroup-uid-000008"):
            assert lines_of(ask(entries, subject, LogTime(position=position)))


async def test_an_unknown_subject_is_named_with_where_it_was_looked_for() -> None:
    entries = await recorded(QUOTA)
    with pytest.raises(UsageError, match=r"'other/a-1' is not in the log.*there is default/a-1"):
        ask(entries, "other/a-1")
    with pytest.raises(UsageError, match=r"position 999 is after the end of the log, 45"):
        ask(entries, "a-1", LogTime(position=999))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a", ("Pod", "default/a")),
        ("x/a", ("Pod", "x/a")),
        ("Pod/a", ("Pod", "default/a")),
        ("Pod/x/a", ("Pod", "x/a")),
        ("podgroup/x/a", ("PodGroup", "x/a")),
        ("Node/n1", ("Node", "n1")),
        ("Node//n1", ("Node", "n1")),
        ("Queue/q", ("Queue", "q")),
        ("node/a", ("Pod", "node/a")),
    ],
)
def test_a_subject_may_be_named_in_several_ways(text: str, first: tuple[str, str]) -> None:
    assert candidates(text)[0] == first


@pytest.mark.parametrize("text", ["", "/", "x/", "a/b/c", "Pod/a/b/c", "HyperNode/a"])
def test_a_subject_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names nothing"):
        candidates(text)


async def test_asking_disturbs_nothing() -> None:
    entries = await recorded(QUOTA)
    plain = State(FEATURES)
    for one in entries:
        plain.apply(one.record, event_of(one.record), one.content)
        plain.settle()
    inquiry = Inquiry("a-4")
    for one in entries:
        inquiry.take(one.record, one.content)
        if one.record.position > FIRST_LIST:
            inquiry.answer()
    assert snapshot.take(inquiry.state) == snapshot.take(plain)


async def test_why_reports_the_nearest_nodes_of_a_gang_that_fits_in_part() -> None:
    answer = ask(await recorded(NODES + GANG + gang_pods(3, cards=2) + FOREIGN_POD), "g")
    nodes = waiting(answer).nodes
    assert nodes is not None
    assert (nodes.fitting, nodes.large_enough) == (2, 3)
    assert [(one.node, one.lacks) for one in nodes.nearest] == [("n1", {"nvidia.com/gpu": 1})]


async def test_a_binding_that_failed_lets_its_group_rest() -> None:
    entries = await recorded(NODES + PODS)
    inquiry = Inquiry("a-1")
    for one in entries:
        inquiry.take(one.record, one.content)
        if one.record.kind.startswith("gang_bind_decided"):
            break
    answer = inquiry.answer()
    assert (
        answer.state
        == f"bound to n1 by decision {answer.decision}, not confirmed by the API server yet"
    )
    failed = BindFailed(
        pod="default/a-1", uid="uid-000005", node="n1", code="Conflict", message="no"
    )
    last = one.record
    record = structs.replace(
        last, position=last.position + 1, kind=failed.kind, subject="Pod/default/a-1",
        body=encode(failed), cause=last.position, cycle=None,
    )  # fmt: skip
    inquiry.take(record, None)
    assert failing(inquiry.answer()) == [("pod group", "1 bindings in a row failed: tried again ")]
