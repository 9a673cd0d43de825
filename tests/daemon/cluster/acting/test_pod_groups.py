"""Telling PodGroups, whose status may be a subresource or not (volcano B.14, rule K13)."""

import msgspec
from msgspec import structs

from daemon.cluster.acting.patching import READS_MAX
from daemon.cluster.acting.pod_groups import GroupTeller
from daemon.cluster.acting.request_budget import MERGE_PATCH
from daemon.cluster.client.errors import ConflictError, NotFoundError, ServerError, UnansweredError
from events.messages import (
    Accepted,
    OutcomeUnknown,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    Rejected,
)
from tests.daemon.cluster.acting.scripted import Answer, Scripted, request_budget, said

AT_NS = 1_763_712_900_000_042_000

APART, WHOLE, READ = "patch podgroups/status", "patch podgroups", "get podgroups"

GONE = said(NotFoundError, 404, "NotFound", 'podgroups.scheduling.volcano.sh "a" not found')
STALE = said(ConflictError, 409, "Conflict", "the object has been modified")

PHASE = PodGroupPhaseRequest(decision=7, namespace="default", name="a", uid="u1", phase="Inqueue")
CONDITION = PodGroupConditionRequest(
    decision=7,
    namespace="default",
    name="a",
    uid="u1",
    type="Unschedulable",
    reason="NotEnoughResources",
    message="3/3 tasks in gang unschedulable",
)
TOLD = {
    "type": "Unschedulable",
    "status": "True",
    "transitionID": "7",
    "lastTransitionTime": "2025-11-21T08:15:00Z",
    "reason": "NotEnoughResources",
    "message": "3/3 tasks in gang unschedulable",
}
FOREIGN = {"type": "Ready", "status": "False", "observedBy": "another", "weight": 3}


def group(uid: str = "u1", phase: str = "", *conditions: object) -> bytes:
    status: dict[str, object] = {"phase": phase} if phase else {}
    if conditions:
        status["conditions"] = conditions
    metadata = {"name": "a", "uid": uid, "resourceVersion": "41"}
    return msgspec.json.encode({"metadata": metadata, "status": status})


def teller() -> GroupTeller:
    return GroupTeller(lambda: AT_NS)


BEFORE, AFTER = group(phase="Pending"), group(phase="Inqueue")


async def test_a_phase_goes_to_the_status_subresource_of_what_was_read_k13_2() -> None:
    client, groups = Scripted(BEFORE, AFTER, BEFORE, AFTER), teller()
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ, APART] * 2
    asked = client.asked[1]
    assert asked.content_type == MERGE_PATCH
    assert asked.document == {
        "metadata": {"uid": "u1", "resourceVersion": "41"},
        "status": {"phase": "Inqueue"},
    }


async def test_a_group_that_is_nested_too_deep_for_a_decoder_is_still_written() -> None:
    """A custom resource may keep unknown fields; the answers to a read and to a patch show them."""

    deep = b'{"a":' * 3_000 + b"1" + b"}" * 3_000

    def hostile(answer: bytes) -> bytes:
        return answer[:-1] + b',"spec":{"unknown":' + deep + b"}}"

    groups = teller()
    client = Scripted(hostile(BEFORE), hostile(AFTER), hostile(BEFORE), GONE, hostile(AFTER))
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ, APART, READ, APART, WHOLE]


async def test_a_group_in_that_phase_is_not_written() -> None:
    client = Scripted(AFTER)
    assert await teller().update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ]


async def test_where_the_status_is_no_subresource_the_group_is_patched_and_that_is_remembered() -> (
    None
):
    client, groups = Scripted(BEFORE, GONE, AFTER, BEFORE, AFTER), teller()
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ, APART, WHOLE, READ, WHOLE]
    assert client.asked[2].body == client.asked[1].body


async def test_where_the_status_has_become_a_subresource_that_is_noticed() -> None:
    first: list[Answer] = [BEFORE, GONE, AFTER]
    then: list[Answer] = [BEFORE, BEFORE, AFTER]
    client, groups = Scripted(*first, *then, BEFORE, AFTER), teller()
    for _ in range(3):
        assert await groups.update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ, APART, WHOLE, READ, WHOLE, APART, READ, APART]


async def test_a_group_that_is_gone_is_refused_and_says_nothing_of_its_kind() -> None:
    client, groups = Scripted(BEFORE, GONE, GONE, GONE, BEFORE, AFTER), teller()
    for _ in range(2):
        reply = await groups.update_phase(request_budget(client), PHASE)
        assert isinstance(reply, Rejected)
        assert reply.code == "NotFound"
    await groups.update_phase(request_budget(client), PHASE)
    assert client.whats == [READ, APART, WHOLE, READ, READ, APART]


async def test_a_kind_that_keeps_no_status_is_refused() -> None:
    reply = await teller().update_phase(request_budget(Scripted(group(), GONE, group())), PHASE)
    assert reply == Rejected(code="Invalid", message="the PodGroup keeps no such status")


async def test_a_phase_whose_answer_was_lost_is_not_written_twice() -> None:
    lost = UnansweredError("patch podgroups/status: the connection was lost")
    client = Scripted(BEFORE, lost, STALE, AFTER)
    assert await teller().update_phase(request_budget(client), PHASE) == Accepted()
    assert client.whats == [READ, APART, APART, READ]


async def test_a_condition_is_written_beside_those_of_others_and_only_if_they_are_still_the_same() -> (
    None
):
    before = {**TOLD, "transitionID": "3", "message": "2/3 tasks in gang unschedulable"}
    client = Scripted(group("u1", "Inqueue", FOREIGN, before), b"{}")
    assert await teller().update_condition(request_budget(client), CONDITION) == Accepted()
    assert client.whats == [READ, APART]
    assert client.asked[1].document == {
        "metadata": {"uid": "u1", "resourceVersion": "41"},
        "status": {"conditions": [FOREIGN, TOLD]},
    }


async def test_a_condition_of_a_new_type_is_added() -> None:
    client = Scripted(group("u1", "", FOREIGN), b"{}")
    assert await teller().update_condition(request_budget(client), CONDITION) == Accepted()
    assert client.asked[1].document["status"] == {"conditions": [FOREIGN, TOLD]}
    client = Scripted(group(), b"{}")
    assert await teller().update_condition(request_budget(client), CONDITION) == Accepted()
    assert client.asked[1].document["status"] == {"conditions": [TOLD]}


async def test_a_condition_that_says_so_already_is_not_written_again_b_14() -> None:
    standing = {**TOLD, "transitionID": "3", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    client = Scripted(group("u1", "Inqueue", FOREIGN, standing))
    assert await teller().update_condition(request_budget(client), CONDITION) == Accepted()
    assert client.whats == [READ]


async def test_a_condition_that_another_has_raced_is_read_again() -> None:
    client = Scripted(group(), STALE, group("u1", "", FOREIGN), b"{}")
    assert await teller().update_condition(request_budget(client), CONDITION) == Accepted()
    assert client.asked[3].document["status"] == {"conditions": [FOREIGN, TOLD]}


async def test_a_group_that_never_stands_still_is_given_up() -> None:
    answers: list[Answer] = [group(), STALE]
    client = Scripted(*answers * READS_MAX)
    reply = await teller().update_condition(request_budget(client), CONDITION)
    assert isinstance(reply, Rejected)
    assert reply.code == "Conflict"


async def test_a_condition_is_not_written_on_another_group_of_that_name_k13_1() -> None:
    client = Scripted(group(uid="u2"))
    reply = await teller().update_condition(request_budget(client), CONDITION)
    assert isinstance(reply, Rejected)
    assert reply.code == "Conflict"
    assert client.whats == [READ]


async def test_a_group_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    broken = Scripted(said(ServerError, 500, "InternalError"), repeats=True)
    assert isinstance(
        await teller().update_condition(request_budget(broken), CONDITION), OutcomeUnknown
    )
    garbage = Scripted(b"<html>", repeats=True)
    assert isinstance(
        await teller().update_condition(request_budget(garbage), CONDITION), OutcomeUnknown
    )
    assert len(garbage.asked) == READS_MAX


def document(**status: object) -> bytes:
    metadata = {"name": "a", "uid": "u1", "resourceVersion": "41"}
    return msgspec.json.encode({"metadata": metadata, "status": status})


COUNTS = PodGroupCountsRequest(
    decision=7, namespace="default", name="a", uid="u1", running=2, succeeded=1, failed=0
)


async def test_a_phase_brings_the_counts_that_differ_along() -> None:
    client = Scripted(document(phase="Inqueue", failed=1), AFTER)
    running = PodGroupPhaseRequest(
        decision=7, namespace="default", name="a", uid="u1", phase="Running", running=2
    )
    assert await teller().update_phase(request_budget(client), running) == Accepted()
    assert client.asked[1].document["status"] == {"phase": "Running", "running": 2, "failed": 0}


async def test_an_admission_ends_the_refusal_in_the_same_write() -> None:
    client = Scripted(group("u1", "Pending", TOLD, FOREIGN), AFTER)
    admitted = structs.replace(PHASE, ends_refusal=True)
    assert await teller().update_phase(request_budget(client), admitted) == Accepted()
    status = client.asked[1].document["status"]
    assert isinstance(status, dict)
    assert status["phase"] == "Inqueue"
    ended, foreign = status["conditions"]
    assert (ended["type"], ended["status"], ended["message"]) == (
        "Unschedulable",
        "False",
        TOLD["message"],
    )
    assert foreign == FOREIGN


async def test_an_admission_of_a_group_without_a_refusal_writes_no_conditions() -> None:
    client = Scripted(group("u1", "Pending", FOREIGN), AFTER)
    admitted = structs.replace(PHASE, ends_refusal=True)
    assert await teller().update_phase(request_budget(client), admitted) == Accepted()
    assert client.asked[1].document["status"] == {"phase": "Inqueue"}


async def test_a_count_update_patches_only_counts_that_changed() -> None:
    client = Scripted(document(phase="Running", running=2), AFTER)
    assert await teller().update_counts(request_budget(client), COUNTS) == Accepted()
    assert client.asked[1].document["status"] == {"succeeded": 1}


async def test_a_group_with_those_counts_is_not_written() -> None:
    client = Scripted(document(running=2, succeeded=1))
    assert await teller().update_counts(request_budget(client), COUNTS) == Accepted()
    assert client.whats == [READ]


async def test_a_condition_ends_the_one_that_says_the_opposite() -> None:
    """#2925: a group that runs does not go on saying that it cannot be scheduled."""
    client = Scripted(group("u1", "Running", TOLD, FOREIGN), AFTER)
    ready = PodGroupConditionRequest(
        decision=9,
        namespace="default",
        name="a",
        uid="u1",
        type="Scheduled",
        reason="tasks in gang are ready to be scheduled",
        message="",
    )
    assert await teller().update_condition(request_budget(client), ready) == Accepted()
    status = client.asked[1].document["status"]
    assert isinstance(status, dict)
    [ended, foreign, told] = status["conditions"]
    assert (ended["type"], ended["status"]) == ("Unschedulable", "False")
    assert foreign == FOREIGN
    assert (told["type"], told["status"], told["transitionID"]) == ("Scheduled", "True", "9")
