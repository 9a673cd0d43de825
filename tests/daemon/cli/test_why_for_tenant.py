"""What a tenant is shown of an answer: nothing about objects of other namespaces."""

import json
from pathlib import Path

import pytest

from daemon.cli.why import SERVICE
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.tenant import TenantAccess, ask_daemon
from daemon.serving.answering import answers_from
from events.errors import UsageError
from replay.tenant_answer import WITHHELD, own_text
from tests.daemon.cli.builders import error_of, muster, scenario

SCENARIO = """\
policy:
  actions: "enqueue, allocate, preempt"
  tiers:
    - plugins: [{name: priority}, {name: conformance}]
    - plugins: [{name: predicates}, {name: nodeorder}]
period: 1s
until: 20s
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", memory: 8Gi, pods: "20"}}}
  - {kind: PriorityClass, metadata: {name: high}, value: 1000}
  - {kind: PriorityClass, metadata: {name: low}, value: 1}
  - kind: Pod
    metadata: {name: "secret-b{i}", namespace: team-b}
    spec: {priorityClassName: low, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
    count: 2
steps:
  - at: 5s
    apply:
      - kind: Pod
        metadata: {name: secret-a, namespace: team-a}
        spec: {priorityClassName: high, containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
      - kind: Pod
        metadata: {name: behind, namespace: team-b}
        spec: {priorityClassName: low, containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
      - kind: Pod
        metadata: {name: wide, namespace: team-c}
        spec: {priorityClassName: low, containers: [{name: main, resources: {requests: {cpu: "3"}}}]}
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The log of a cluster in which a pod of team-a evicts two of team-b."""
    folder: Path = tmp_path_factory.mktemp("tenants")
    path = str(folder / "run.db")
    assert muster("simulate", scenario(folder, SCENARIO), "--log", path).exit_code == 0
    return path


@pytest.mark.parametrize(
    ("subject", "others"),
    [
        ("team-a/secret-a", ("team-b", "secret-b", "team-c", "wide")),
        ("team-b/secret-b1", ("team-a", "secret-a", "team-c", "wide")),
        ("team-b/behind", ("team-a", "secret-a", "team-c", "wide")),
        ("team-c/wide", ("team-a", "team-b", "secret", "behind")),
    ],
)
def test_no_name_of_another_namespace_is_in_the_answer(
    subject: str, others: tuple[str, ...], log: str
) -> None:
    for form in ("text", "json"):
        result = muster("why", subject, "--log", log, "--for-tenant", "--output", form)
        assert result.exit_code == 0, result.output
        assert subject in result.stdout
        assert [one for one in others if one in result.stdout] == []


def test_the_whole_answer_has_the_names_that_are_left_out(log: str) -> None:
    assert "team-b/secret-b" in muster("why", "team-a/secret-a", "--log", log).stdout
    assert "team-a/" in muster("why", "team-b/secret-b1", "--log", log).stdout
    tenant = muster("why", "team-b/secret-b1", "--log", log, "--for-tenant").stdout
    assert WITHHELD in tenant


def test_a_waiting_pod_has_its_checks_its_place_and_numbers_of_nodes(log: str) -> None:
    result = muster("why", "team-c/wide", "--log", log, "--for-tenant", "-o", "json")
    waiting = json.loads(result.stdout)["waiting"]
    assert waiting["nodes"]["total"] == 1
    assert {one["level"]: one["text"] for one in waiting["checks"] if not one["passed"]}[
        "nodes"
    ] == ""
    assert waiting["line"]["of"] >= 1


def test_a_node_and_a_queue_have_no_tenant(log: str) -> None:
    for subject in ("Node/n1", "Queue/default"):
        result = muster("why", subject, "--log", log, "--for-tenant")
        assert result.exit_code == 2
        assert "pods and pod groups only" in error_of(result)


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("1 nvidia.com/gpu of queue red is short", True),
        ("bind PodGroup/a/g: a/p -> n1", True),
        ("evict b/x for a/p", False),
        ("pod anti-affinity of pod b/x excludes this node", False),
        ("Pod/b/x is gone", False),
        ("(b/x)", False),
        ("a/p,b/x", False),
    ],
)
def test_a_sentence_is_shown_whole_or_not_at_all(text: str, is_own: bool) -> None:
    assert own_text(text, "a") == (text if is_own else WITHHELD)


async def test_a_process_of_its_own_answers_and_an_unknown_pod_is_none(log: str) -> None:
    answer = await answers_from(log)("Pod/team-c/wide")
    assert answer is not None
    assert answer.startswith(b'{"subject":"Pod/team-c/wide"')
    assert await answers_from(log)("Pod/team-c/absent") is None


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        (TenantAccess(SERVICE, server="muster:8443", token="t"), "is no URL"),  # noqa: S106
        (TenantAccess(SERVICE, server="http://muster:8443", token="t"), "only over https"),  # noqa: S106
        (
            TenantAccess(SERVICE, access=Access(kubeconfig=Path("/absent"))),
            "without --log the running",
        ),
    ],
)
async def test_what_cannot_reach_the_daemon_is_said_in_one_line(
    reach: TenantAccess, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        await ask_daemon(reach, [("Pod", "a/p")])
