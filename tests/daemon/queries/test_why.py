"""`why` from the records of the subject and from snapshots is the answer of a fold of the whole log."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from msgspec import structs
from sqlalchemy import event
from sqlalchemy.engine import Engine

from daemon.log.contract import ReadableLog
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.tables import CYCLE_KINDS, FOUND_BY_KIND
from daemon.queries import why as why_query
from daemon.queries.history import write_snapshots
from daemon.queries.why import FAVOURING, why
from daemon.simulation import simulate
from events.errors import UsageError
from replay.log_time import LogTime
from replay.why import Inquiry
from replay.why_answer import Answer
from replay.why_text import lines_of
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIOS = (
    "docs/examples/node_fault.yaml",
    "docs/examples/quota.yaml",
    *(f"tests/scenarios/{name}.yaml" for name in ("*preempt*", "*reclaim*", "*gang*", "*restart*")),
)
QUICK = 1
"""Scenarios of each pattern that are not left to `make soak`."""
EVERY = 9
RECENT = 20
"""Records in which a node or queue is followed here."""
SUBJECTS_MAX = 1
PODS_MAX = 2
"""Pods of a scenario that are asked about."""


def texts() -> Iterator[ParameterSet]:
    """Texts of scenarios in which pods are evicted for others, and come again; most of them take long."""
    seen: set[str] = set()
    for pattern in SCENARIOS:
        folder, _, name = pattern.rpartition("/")
        for number, path in enumerate(_found(ROOT / folder, name)):
            if path.name not in seen:
                seen.add(path.name)
                marks = [pytest.mark.soak] if number >= QUICK else []
                yield pytest.param(path.read_text(encoding="utf-8"), id=path.name, marks=marks)


def _found(folder: Path, pattern: str) -> list[Path]:
    found = folder.rglob(pattern) if "*" in pattern else folder.glob(pattern)
    return sorted(found)[:8]


async def recorded(text: str) -> MemoryLog:
    """The log of a scenario, with snapshots."""
    log = MemoryLog()
    await simulate(parse_scenario(text, "test.yaml"), log, with_views=False)
    await write_snapshots(log, EVERY)
    return log


def folded(log: MemoryLog, subject: str, position: int, since: int = 0) -> Answer:
    """The answer of a fold from the first record."""
    inquiry = Inquiry(subject, LogTime(position=position), since=since)
    for record in log.memory.records[:position]:
        inquiry.take(record, log.memory.contents.get(record.object or ""))
    return inquiry.answer()


TEXTS = list(texts())


@pytest.mark.parametrize("text", TEXTS)
async def test_the_answer_for_a_pod_is_that_of_the_whole_fold(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await recorded(text)
    monkeypatch.setattr(why_query, "Inquiry", WithoutRecords)
    begins: dict[str, int] = {}
    for record in log.memory.records:
        if record.subject.startswith("Pod/") and record.subject != "Pod//":
            begins.setdefault(record.subject, record.position)
    for subject, begin in list(begins.items())[:PODS_MAX]:
        end = log.head.position
        for position in sorted({*range(begin, end, max((end - begin) // 4, 1)), end}):
            answer = await why(log, subject, LogTime(position=position))
            assert answer == folded(log, subject, position), (subject, position)


class WithoutRecords(Inquiry):
    """An inquiry that does not go through a log."""

    def take(self, record: object, content: bytes | None) -> bool:
        """Fail."""
        raise AssertionError("the whole log is folded")


class NoWholeFold:
    """In place of the fold of the whole log."""

    def __call__(self, *given: object) -> Answer:
        """Fail."""
        raise AssertionError("the whole log is folded")


@pytest.mark.parametrize("text", TEXTS)
async def test_the_answer_for_pod_groups_nodes_and_queues_is_that_of_the_whole_fold(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await recorded(text)
    monkeypatch.setattr(why_query, "_ask", NoWholeFold())
    monkeypatch.setattr(why_query, "RECENT_RECORDS", RECENT)
    begins: dict[tuple[str, str], int] = {}
    for record in log.memory.records:
        kind, _, name = record.subject.partition("/")
        if kind in ("PodGroup", "Node", "Queue") and name != "/":
            begins.setdefault((kind, record.subject.replace("//", "/")), record.position)
    for kind in ("PodGroup", "Node", "Queue"):
        subjects = [one for one in begins if one[0] == kind][:SUBJECTS_MAX]
        for one in subjects:
            begin, end = begins[one], log.head.position
            for position in sorted({*range(begin, end, max((end - begin) // 3, 1)), end}):
                since = position - RECENT + 1
                expected = folded(log, one[1], position, since if since > 1 else 0)
                answer = await why(log, one[1], LogTime(position=position))
                assert structs.replace(answer, quota_change=None) == expected, (one[1], position)


async def test_a_pod_that_joins_another_group_is_followed_through_the_log() -> None:
    name = "a_pod_that_is_annotated_with_another_group_joins_it.yaml"
    [path] = (ROOT / "tests/scenarios").rglob(name)
    log = await recorded(path.read_text(encoding="utf-8"))
    answer = await why(log, "default/p-1")
    assert answer == folded(log, "default/p-1", log.head.position)
    assert any("default/old" in one.text for one in answer.steps)
    assert any("default/new" in one.text for one in answer.steps)


async def test_a_name_without_a_kind_means_what_is_there() -> None:
    log = await recorded((ROOT / "docs/examples/node_fault.yaml").read_text(encoding="utf-8"))
    for subject in ("n2", "train", "default/train", "train-0"):
        answer = await why(log, subject)
        assert answer == folded(log, subject, log.head.position)
    with pytest.raises(UsageError, match="is not in the log up to position"):
        await why(log, "default/none")
    with pytest.raises(UsageError, match="is not in the log up to position 3 "):
        await why(log, "default/train-0", LogTime(position=3))


async def test_of_a_node_only_the_last_decisions_are_followed_and_the_answer_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = await recorded((ROOT / "docs/examples/node_fault.yaml").read_text(encoding="utf-8"))
    whole = await why(log, "Node/n2")
    monkeypatch.setattr(why_query, "RECENT_RECORDS", RECENT)
    answer = await why(log, "Node/n2")
    since = log.head.position - RECENT + 1
    assert answer.steps_since == since
    assert lines_of(answer)[-1] == (
        f"  (before position {since}, only changes of the object itself are listed)"
    )
    left = [one for one in whole.steps if one not in answer.steps]
    assert left
    assert all(one.position < since for one in left)
    assert {one.kind for one in left}.isdisjoint({"object_observed.v1"})


def test_kinds_that_are_looked_for_have_an_index() -> None:
    assert set(FOUND_BY_KIND) == {*CYCLE_KINDS, *FAVOURING}


GANG = """
scenario: a gang
until: 20s
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {{name: n}}
    status: {{allocatable: {{cpu: "32", memory: 256Gi, pods: "110"}}}}
  - apiVersion: scheduling.volcano.sh/v1beta1
    kind: PodGroup
    metadata: {{name: gang, namespace: default}}
    spec: {{minMember: {pods}}}
steps:
  - at: 1s
    apply:
      - apiVersion: v1
        kind: Pod
        metadata:
          name: "p{{i}}"
          annotations: {{scheduling.k8s.io/group-name: gang}}
        spec:
          containers: [{{name: main, resources: {{requests: {{cpu: 100m}}}}}}]
        count: {pods}
"""

QUERIES_MAX = 40
"""SQL statements of one answer on a log of one chunk."""


@pytest.mark.parametrize("subject", ["Pod/default/p1", "PodGroup/default/gang"])
async def test_the_number_of_queries_does_not_grow_with_the_records(
    tmp_path: Path, subject: str
) -> None:
    counts: dict[int, int] = {}
    for pods in (2, 40):
        log = await open_log(str(tmp_path / f"{pods}.db"), "write")
        await simulate(parse_scenario(GANG.format(pods=pods), "test.yaml"), log, with_views=False)
        counts[pods] = await _queries_of(log, subject)
        await log.close()
    assert counts[40] <= counts[2] + 1, counts
    assert counts[40] <= QUERIES_MAX, counts


async def _queries_of(log: ReadableLog, subject: str) -> int:
    """The SQL statements that an answer takes."""
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert (await why(log, subject)).steps
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return len(statements)
