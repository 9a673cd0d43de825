"""`why` for a pod from its own records and from snapshots is the answer of a fold of the whole log."""

from collections.abc import Iterator

import pytest

from daemon.log.memory import MemoryLog
from daemon.log.tables import FOUND_BY_KIND
from daemon.queries import why as why_query
from daemon.queries.history import write_snapshots
from daemon.queries.why import CYCLES, FAVOURING, why
from daemon.simulation import simulate
from events.errors import UsageError
from replay.log_time import LogTime
from replay.why import Inquiry
from replay.why_answer import Answer
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIOS = (
    "docs/examples/node_fault.yaml",
    "docs/examples/quota.yaml",
    *(f"tests/scenarios/{name}.yaml" for name in ("*preempt*", "*reclaim*", "*gang*", "*restart*")),
)
EVERY = 9
PODS_MAX = 4
"""Pods of a scenario that are asked about."""


def texts() -> Iterator[tuple[str, str]]:
    """Names and texts of scenarios in which pods are evicted for others, and come again."""
    for pattern in SCENARIOS:
        folder, _, name = pattern.rpartition("/")
        for path in sorted((ROOT / folder).rglob(name))[:4]:
            yield path.name, path.read_text(encoding="utf-8")


async def recorded(text: str) -> MemoryLog:
    """The log of a scenario, with snapshots."""
    log = MemoryLog()
    await simulate(parse_scenario(text, "test.yaml"), log, with_views=False)
    await write_snapshots(log, EVERY)
    return log


def folded(log: MemoryLog, subject: str, position: int) -> Answer:
    """The answer of a fold from the first record."""
    inquiry = Inquiry(subject, LogTime(position=position))
    for record in log.memory.records[:position]:
        inquiry.take(record, log.memory.contents.get(record.object or ""))
    return inquiry.answer()


@pytest.mark.parametrize("text", [one[1] for one in texts()], ids=[one[0] for one in texts()])
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
        for position in sorted({*range(begin, end, max((end - begin) // 6, 1)), end}):
            answer = await why(log, subject, LogTime(position=position))
            assert answer == folded(log, subject, position), (subject, position)


class WithoutRecords(Inquiry):
    """An inquiry that does not go through a log."""

    def take(self, record: object, content: bytes | None) -> bool:
        """Fail."""
        raise AssertionError("the whole log is folded")


async def test_what_is_no_pod_is_followed_through_the_log() -> None:
    log = await recorded((ROOT / "docs/examples/node_fault.yaml").read_text(encoding="utf-8"))
    for subject in ("Node/n2", "PodGroup/default/train", "train"):
        answer = await why(log, subject)
        assert answer == folded(log, subject, log.head.position)
    with pytest.raises(UsageError, match="is not in the log up to position"):
        await why(log, "default/none")
    with pytest.raises(UsageError, match="is not in the log up to position 3 "):
        await why(log, "default/train-0", LogTime(position=3))


def test_kinds_that_are_looked_for_have_an_index() -> None:
    assert set(FOUND_BY_KIND) == {*CYCLES, *FAVOURING}
