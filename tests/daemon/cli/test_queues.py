"""`muster queue`: the same numbers as the views, and the waiting pod groups by queue."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.daemon.cli.builders import error_of, logged, muster, scenario

COLUMNS = (
    *("resource", "capability", "guarantee", "deserved"),
    *("allocated", "inqueue", "request", "elastic"),
)


def answers(result: Result) -> list[Any]:
    """What a command printed as JSON, a document a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which p1 is bound and p2 is refused by the quota of q1."""
    return logged(tmp_path_factory.mktemp("queues"))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue with one card, and three who want it."""
    folder = tmp_path_factory.mktemp("crowded")
    text = """\
cluster:
  - kind: Node
    metadata: {name: n1, labels: {nvidia.com/gpu.product: K80}}
    status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
  - {kind: Queue, metadata: {name: q, annotations: {volcano.sh/card.quota: '{"K80": 1}'}}}
  - {kind: Queue, metadata: {name: closed}, status: {state: Closed}}
  - {kind: PriorityClass, metadata: {name: high}, value: 9}
  - kind: Pod
    metadata: &card
      name: "p{i}"
      annotations: {volcano.sh/card.name: K80, scheduling.volcano.sh/queue-name: q}
    spec: &gpu {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}
    count: 3
steps:
  - at: 2s
    apply:
      - kind: Pod
        metadata:
          name: urgent
          annotations: {volcano.sh/card.name: K80, scheduling.volcano.sh/queue-name: q}
        spec: {priorityClassName: high, containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
    path = folder / "crowded.db"
    result = muster("simulate", scenario(folder, text), "--log", path)
    assert result.exit_code == 0, result.output
    return path


def test_queues_are_listed_with_the_numbers_of_the_view(log: Path, crowded: Path) -> None:
    for one in (log, crowded):
        listed = answers(muster("queue", "list", "--log", one, "-o", "json"))
        rows = [
            (answer["queue"], *(resource[column] for column in COLUMNS))
            for answer in listed
            for resource in answer["resources"]
        ]
        with closing(sqlite3.connect(one)) as database:
            names = ", ".join(("queue", *COLUMNS))
            found = database.execute(
                f"SELECT {names} FROM queue_quota ORDER BY queue, resource"  # noqa: S608  # ours
            ).fetchall()
        assert rows == found


def test_a_list_for_people_shows_quota_use_and_what_waits(log: Path) -> None:
    lines = [line.split() for line in muster("queue", "list", "--log", log).stdout.splitlines()]
    assert lines[0] == [
        *("queue", "state", "in", "line", "resource", "quota"),
        *("guarantee", "deserved", "used", "reserved", "waiting", "limit"),
    ]
    assert lines[1] == ["q1", "open", "1", "NVIDIA-H200", *("1", "1", "1", "1", "0", "1", "1")]


def test_a_queue_shows_its_line_with_places_and_reasons(crowded: Path) -> None:
    (answer,) = answers(muster("queue", "show", "q", "--log", crowded, "-o", "json"))
    line = answer["line"]
    assert [one["place"] for one in line] == [1, 2, 3]
    assert [one["priority"] for one in line] == [9, 0, 0], "the urgent one came last"
    assert {one["code"] for one in line} == {"InsufficientScalarQuota"}
    assert [one["limit"] for one in line] == ["K80"] * 3
    (holder,) = answer["holders"]
    assert holder["allocated"] == {"K80": 1}
    text = muster("queue", "show", "q", "--log", crowded).stdout
    assert "held by 1 pod group:" in text
    assert "line for enqueue:" in text
    assert "requested <1000>, total would be <2000>, but capability is <1000>" in text


def test_a_queue_can_be_seen_as_it_was(crowded: Path) -> None:
    (then,) = answers(muster("queue", "show", "q", "--log", crowded, "--at", "9", "-o", "json"))
    assert then["holders"] == []


def test_queue_show_reports_why_a_closed_queue_accepts_no_pod_groups(crowded: Path) -> None:
    text = muster("queue", "show", "closed", "--log", crowded).stdout
    assert "Queue <closed> is not open" in text.splitlines()[0]


def test_a_queue_that_is_not_there_is_an_error_that_names_those_that_are(crowded: Path) -> None:
    result = muster("queue", "show", "nope", "--log", crowded)
    assert result.exit_code == 2
    assert "there is no queue 'nope'" in error_of(result)
    assert "closed" in error_of(result)


def test_of_many_queues_only_those_with_a_name_like_it_are_named(tmp_path: Path) -> None:
    queues = "".join(f"  - {{kind: Queue, metadata: {{name: team-{at}}}}}\n" for at in range(30))
    path = tmp_path / "many.db"
    assert (
        muster("simulate", scenario(tmp_path, f"cluster:\n{queues}"), "--log", path).exit_code == 0
    )
    said = error_of(muster("queue", "show", "taem-7", "--log", path))
    assert ": of 30 queues, near it: team-7" in said
    assert said.count("team-") == 5
    said = error_of(muster("queue", "show", "xyz", "--log", path))
    assert said.endswith(": none of 30 queues has a name like it")


def test_why_counts_one_pod_of_a_node_in_the_singular(tmp_path: Path) -> None:
    shown = muster("why", "Node/n1", "--log", logged(tmp_path)).stdout
    assert ", 1 pod on it" in shown.splitlines()[0]


def test_parents_are_listed_with_the_state_of_their_object_and_the_sum(tmp_path: Path) -> None:
    text = """\
policy: {actions: allocate, tiers: [{plugins: [{name: gang}, {name: capacity, enableHierarchy: true}]}]}
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 110}}}
  - {kind: Queue, metadata: {name: root}, status: {state: Open}}
  - {kind: Queue, metadata: {name: eng}, status: {state: Open}}
  - {kind: Queue, metadata: {name: dev}, spec: {parent: eng}}
  - {kind: Queue, metadata: {name: old}, status: {state: Closing}}
  - {kind: Pod, metadata: {name: p, annotations: {scheduling.volcano.sh/queue-name: dev}}, spec: {containers: [{resources: {requests: {cpu: 3}}}]}}
until: 2s
"""
    log = tmp_path / "tree.db"
    assert muster("simulate", scenario(tmp_path, text), "--log", log).exit_code == 0
    listed = {
        one["queue"]: one for one in answers(muster("queue", "list", "--log", log, "-o", "json"))
    }
    assert {name: one["state"] for name, one in listed.items()} == {
        "dev": "Open",
        "eng": "Open",
        "root": "Open",
        "old": "Closing",
    }
    assert {name: one["resources"][0]["allocated"] for name, one in listed.items()} == {
        "dev": 3000,
        "eng": 3000,
        "root": 3000,
        "old": 0,
    }
    assert [listed[one]["is_open"] for one in ("root", "eng", "dev", "old")] == [True] * 3 + [False]
    lines = [line.split()[:2] for line in muster("queue", "list", "--log", log).stdout.splitlines()]
    assert [line for line in lines if line[0] in listed] == [
        *(["dev", "open"], ["eng", "open"], ["old", "closing"], ["root", "open"])
    ]
