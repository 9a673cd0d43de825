"""Questions to a log that begins with what stands at a position: for all that lies behind the cut the answer is that of the whole log.

Such a log is a bundle of a stretch, what is left of a log whose older part was archived, or a bundle of a stretch that was imported.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pytest

from daemon.cli.inputs import read_policy
from daemon.first_state import state_at_base
from daemon.limits import InputLimitError, Limits
from daemon.log.base_records import BaseWriter, entries_of
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import ReadableLog
from daemon.log.copying import copy_whole
from daemon.log.entry import Base
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.queries.archive import archive, join
from daemon.queries.bases import past_at_base
from daemon.queries.bundles import export_stretch
from daemon.queries.history import History
from daemon.queries.incident import incidents
from daemon.queries.objects import object_at
from daemon.queries.reduce import Stretch, reduce_objects, starting_point, timeline_of
from daemon.queries.replay import Replayed, replay_log
from daemon.queries.replay_rest import ReplayedRest, replay_rest
from daemon.queries.usage import usage
from daemon.queries.what_if import what_if
from daemon.simulation import simulate
from daemon.view_rebuild import write_views_anew
from events.errors import DamagedLogError, UsageError
from projections import snapshot
from replay.incident_answer import IncidentReport
from replay.incident_selection import Selection, parse_fault
from replay.log_time import LogTime
from replay.what_if_comparison import Branch
from replay.what_if_figures import RunFigures
from simulator.reduce_condition import parse_condition
from simulator.scenario import parse_scenario
from simulator.what_if_change import parse_change
from tests.checkout import ROOT
from tests.daemon.test_what_if import FOUR_PODS, QUOTA_OF_FOUR
from tests.scenarios.play import FILES, name_of, scenario_of

EXAMPLES: Final = ROOT / "docs" / "examples"
NODE_FAULT: Final = (EXAMPLES / "node_fault.yaml").read_text(encoding="utf-8")
SPREAD: Final = EXAMPLES / "spread.yaml"
NAMES: Final = ("muster",)

Cut: TypeAlias = Callable[[SqlLog, int], Coroutine[object, object, ReadableLog]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The logs of two scenarios."""
    folder = tmp_path_factory.mktemp("recorded")
    scenarios = {"fault": NODE_FAULT, "quota": f"scenario: a test\n{FOUR_PODS}"}

    async def record(name: str, text: str) -> None:
        log = await open_log(str(folder / name), "write")
        await simulate(parse_scenario(text, "test"), log, with_views=True)
        await log.close()

    for name, text in scenarios.items():
        asyncio.run(record(name, text))
    return {name: (folder / name).read_bytes() for name in scenarios}


def written(path: Path, stored: bytes) -> str:
    path.touch(mode=0o600)
    path.write_bytes(stored)
    return str(path)


async def opened(path: str) -> SqlLog:
    log = await open_log(path, "write")
    assert isinstance(log, SqlLog)
    return log


@pytest.fixture
async def fault(recorded: dict[str, bytes], tmp_path: Path) -> AsyncIterator[SqlLog]:
    """A log of 98 records: a gang whose node stops twice, at positions 44 and 49; it is restarted from 52 to 94."""
    log = await opened(written(tmp_path / "fault.db", recorded["fault"]))
    yield log
    await log.close()


@pytest.fixture
async def quota(recorded: dict[str, bytes], tmp_path: Path) -> AsyncIterator[SqlLog]:
    """A log in which two of four pods wait for quota, and a node is lost."""
    log = await opened(written(tmp_path / "quota.db", recorded["quota"]))
    yield log
    await log.close()


@pytest.fixture(params=["a bundle of a stretch", "an archived log", "an imported stretch"])
async def cut(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cut]:
    """Make a log that begins with the batch of a position out of a whole one, which stays as it is."""
    opened: list[ReadableLog] = []

    async def make(whole: SqlLog, first: int) -> ReadableLog:
        bundle = tmp_path / f"stretch-{len(opened)}.muster"
        if request.param == "an archived log":
            copy = await open_log(f"{bundle}.db", "write")
            assert isinstance(copy, SqlLog)
            await copy_whole(whole, copy)
            await write_views_anew(copy)
            await archive(copy, bundle, first)
            opened.append(copy)
            return copy
        await export_stretch(whole, bundle, first=first)
        log: ReadableLog = BundleLog(bundle)
        if request.param == "an imported stretch":
            target = await open_log(f"{bundle}.db", "write")
            assert isinstance(target, SqlLog)
            await copy_whole(log, target)
            await write_views_anew(target)
            log = target
        opened.append(log)
        return log

    yield make
    for one in opened:
        await one.close()


# What-if


async def branch(log: ReadableLog, at: int, change: str = "steps: []") -> Branch:
    return await what_if(
        log,
        LogTime(position=at),
        lambda history, length_ns: parse_change(
            change,
            "change.yaml",
            objects=None if history is None else history.names,
            length_ns=length_ns,
        ),
    )


def figures(run: RunFigures) -> tuple[object, ...]:
    decisions = [(one.decision, one.at_ns, one.message) for one in run.decisions]
    return run.groups, run.queue_of, run.nodes, decisions, run.goodput.card_ns


def shown(found: Branch) -> list[object]:
    runs = (found.recorded, found.model, found.changed)
    return [found.head, found.at_ns, found.end_ns, *map(figures, runs)]


async def test_a_branch_has_the_figures_of_a_branch_of_the_whole_log(
    quota: SqlLog, cut: Cut
) -> None:
    """Pods wait, run and stop there that were seen, bound and deleted before the cut."""
    for first, at in ((20, 30), (30, 40), (40, 45)):
        log = await cut(quota, first)
        assert log.base.position > 0
        for change in ("steps: []", QUOTA_OF_FOUR):
            assert shown(await branch(log, at, change)) == shown(await branch(quota, at, change))


async def test_a_branch_may_begin_where_the_log_begins(quota: SqlLog, cut: Cut) -> None:
    log = await cut(quota, 30)
    base = log.base.position
    assert shown(await branch(log, base)) == shown(await branch(quota, base))
    with pytest.raises(UsageError, match="holds positions"):
        await branch(log, base - 1)


async def test_a_branch_of_a_stretch_is_kept_with_its_facts(fault: SqlLog, tmp_path: Path) -> None:
    await export_stretch(fault, tmp_path / "a.muster", first=50)
    kept = MemoryLog()
    await what_if(
        BundleLog(tmp_path / "a.muster"),
        LogTime(position=60),
        lambda history, length_ns: parse_change("steps: []", "change.yaml"),
        kept=kept,
    )
    assert (kept.base.position, (await replay_log(kept)).divergence) == (49, None)
    assert (await object_at(kept, ["Node//n1"])).position == 3


@pytest.mark.parametrize("path", FILES[::50], ids=name_of)
async def test_branches_of_scenarios_are_those_of_their_whole_logs(
    path: Path, tmp_path: Path
) -> None:
    log = MemoryLog()
    await simulate(scenario_of(path), log, with_views=False)
    batches = [one.batch for one in log.memory.records if one.batch == one.position > 1]
    first, at = batches[len(batches) // 2], batches[-len(batches) // 4] - 1
    await export_stretch(log, tmp_path / "a.muster", first=first)
    bundle = BundleLog(tmp_path / "a.muster")
    if log.memory.records[at - 1].position <= bundle.base.position:
        return
    try:
        whole = shown(await branch(log, at))
    except UsageError:
        return  # Nothing was listed yet.
    assert shown(await branch(bundle, at)) == whole


# Replay under another policy


def result(found: Replayed | ReplayedRest) -> object:
    """What a replay found, without causes that are before the cut and the times since the log began."""
    if isinstance(found, ReplayedRest):
        return shown(found.branch), [
            (one.what, one.one and one.one.decision, one.other and one.other.decision)
            for one in found.differences
        ]
    divergence = found.divergence
    return found.replay, divergence and msgspec.structs.replace(divergence, causes=(), decider=0)


async def test_another_policy_diverges_where_it_does_in_the_whole_log(
    quota: SqlLog, cut: Cut
) -> None:
    policy = read_policy(SPREAD)
    for first in (20, 40):
        log = await cut(quota, first)
        first = log.base.position + 1
        whole = await replay_log(quota, first, policy=policy)
        assert result(await replay_log(log, policy=policy)) == result(whole)


async def test_the_rest_is_decided_again_from_the_facts(quota: SqlLog, cut: Cut) -> None:
    policy = read_policy(SPREAD)
    log = await cut(quota, 26)
    first = log.base.position + 1
    for other in (policy, None):
        assert result(await replay_rest(log, first, policy=other)) == result(
            await replay_rest(quota, first, policy=other)
        )
    assert isinstance(await replay_rest(log), Replayed)


# Incidents


async def found_by(log: ReadableLog, selection: Selection) -> dict[str, IncidentReport]:
    found = await incidents(log, selection)
    return {one.summary.name: one for one in found.incidents}


async def test_an_incident_behind_the_cut_is_that_of_the_whole_log(fault: SqlLog, cut: Cut) -> None:
    log = await cut(fault, 47)
    whole = await found_by(fault, Selection())
    assert (await found_by(log, Selection())) == {"n2@49": whole["n2@49"]}
    for selection in (parse_fault("n2@49"), Selection(moment=LogTime(position=60))):
        assert await found_by(log, selection) == await found_by(fault, selection)


async def test_an_incident_that_began_before_the_cut_says_so(fault: SqlLog, cut: Cut) -> None:
    """When its fault was seen and how long that took is not known; what was decided behind the cut is."""
    log = await cut(fault, 60)
    whole = (await found_by(fault, parse_fault("n2@49")))["n2@49"]
    base = log.base.position
    (one,) = (await found_by(log, Selection(node="n2"))).values()
    assert (one.summary.name, one.summary.at) == (f"n2@{base}", "before 110.000s")
    assert (one.summary.is_over, one.summary.last_at) == (True, whole.summary.last_at)
    assert [hit.pod for hit in one.pods] == [hit.pod for hit in whole.pods]
    (restart,), (of_whole,) = one.restarts, whole.restarts
    assert (restart.moves, restart.waits) == (of_whole.moves, of_whole.waits)
    assert restart.decisions == of_whole.decisions
    assert (restart.seconds_to_decision, restart.seconds_to_running) == (None, None)
    assert (restart.outcome, restart.message) == (of_whole.outcome, of_whole.message)
    behind = [step for step in one.timeline if step.position > base]
    assert behind[:-1] == [step for step in whole.timeline if step.position > base][:-1]
    assert behind[-1].text == f"fault n2@{base} is gone after more than 90.0s"
    assert {step.why for step in one.timeline if step.position <= base} == {""}


async def test_a_restart_of_which_all_pods_run_again_is_over_with_its_record(
    fault: SqlLog, cut: Cut
) -> None:
    log = await cut(fault, 93)
    (one,) = (await found_by(log, Selection(node="n2"))).values()
    (restart,) = one.restarts
    assert (one.summary.is_over, restart.is_over, restart.outcome) == (True, True, "Restarted")
    assert [move.to_node for move in restart.moves] == ["n1", "n4", "n3"]


# Objects, usage, reduced scenarios


async def test_objects_that_did_not_change_behind_the_cut_are_shown(
    fault: SqlLog, cut: Cut
) -> None:
    log = await cut(fault, 50)
    for subject in ("Node//n1", "Node//n2", "PodGroup/default/train", "Pod/default/train-0"):
        assert await object_at(log, [subject], 50) == await object_at(fault, [subject], 50)
    with pytest.raises(UsageError, match="earlier ones are in its archive"):
        await object_at(log, ["Node//n5"])


async def test_usage_names_labels_and_owners_of_pods_that_were_bound_before(
    fault: SqlLog, cut: Cut
) -> None:
    log = await cut(fault, 50)
    if isinstance(log, BundleLog):
        with pytest.raises(UsageError, match="a bundle, which has no views"):
            await usage(log, "queue")
        return
    for by in ("queue", "owner", "label:apps.kubernetes.io/pod-index"):
        assert await usage(log, by, 50) == await usage(fault, by, 50)


async def test_a_reduced_scenario_has_the_same_objects(fault: SqlLog, cut: Cut) -> None:
    log = await cut(fault, 60)
    condition = parse_condition("decision kind=bind pod_group=default/train")
    found = []
    for one in (fault, log):
        stretch = Stretch(60, one.head.position)
        start = await starting_point(one, condition, stretch, NAMES)
        assert start is not None
        found.append((start.position, start.objects, start.target))
        reduced = reduce_objects(start, (), NAMES, lambda: False).reduced
        assert reduced is not None
        changes, until_ns = await timeline_of(one, start, stretch, NAMES)
        assert (changes[0].at_ns, until_ns > 0) == (0, True)
    assert found[0] == found[1]


# The records themselves


async def test_a_cut_of_a_cut_holds_the_records_of_a_cut_of_the_whole_log(
    fault: SqlLog, cut: Cut, tmp_path: Path
) -> None:
    for first, later in ((30, 60), (49, 53)):
        await export_stretch(await cut(fault, first), tmp_path / "cut.muster", first=later)
        await export_stretch(fault, tmp_path / "whole.muster", first=later)
        found = [BundleLog(tmp_path / f"{name}.muster") for name in ("cut", "whole")]
        one, other = [await log.read_base() for log in found]
        assert one is not None
        assert one == other
        for name in ("cut", "whole"):
            (tmp_path / f"{name}.muster").unlink()


async def test_what_stands_is_the_state_of_the_whole_log(fault: SqlLog, cut: Cut) -> None:
    state = await state_at_base(await cut(fault, 50))
    assert state is not None
    whole = await History(fault).facts_at_position(state.position)
    assert snapshot.take(state) == snapshot.take(whole)


async def test_an_archive_of_an_archived_log_begins_with_the_records_too(
    fault: SqlLog, tmp_path: Path
) -> None:
    await archive(fault, tmp_path / "1.muster", 46)
    first = await past_at_base(fault)
    await archive(fault, tmp_path / "2.muster", 60)
    assert await past_at_base(BundleLog(tmp_path / "2.muster")) == first
    await join(fault, BundleLog(tmp_path / "2.muster"))
    assert await past_at_base(fault) == first
    await join(fault, BundleLog(tmp_path / "1.muster"))
    assert await past_at_base(fault) == []


async def test_objects_that_stand_stay_in_the_log_for_later_records(
    fault: SqlLog, tmp_path: Path
) -> None:
    """Node n1 does not change any more; when a list no longer holds it, a record names it by its digest."""

    async def positions_kept() -> list[int]:
        kept = await fault.ask("select digest from objects")
        digests = {str(digest) for (digest,) in kept.rows}
        return [at for at, digest in seen.items() if digest in digests]

    rows = (await fault.ask("select position, object from log where position in (3, 34, 46)")).rows
    seen = {int(str(at)): str(digest) for at, digest in rows}
    await archive(fault, tmp_path / "1.muster", 48)
    assert await positions_kept() == [3, 34, 46]
    # Nothing refers to the first pod any more.
    await archive(fault, tmp_path / "2.muster", 98)
    assert await positions_kept() == [3, 46]
    await export_stretch(fault, tmp_path / "3.muster")
    target = await open_log(str(tmp_path / "imported.db"), "write")
    await copy_whole(BundleLog(tmp_path / "3.muster"), target)
    assert isinstance(target, SqlLog)
    found = await target.ask("select digest from objects")
    await target.close()
    assert (seen[3],) in found.rows


async def test_a_base_that_was_forged_is_found(fault: SqlLog, tmp_path: Path) -> None:
    """Its digest stands in the log: a record that is changed, added or left out is not of that chain."""
    await export_stretch(fault, tmp_path / "a.muster", first=50)
    base = await BundleLog(tmp_path / "a.muster").read_base()
    assert base is not None
    entries = list(entries_of(base, "a log"))
    at = next(index for index, one in enumerate(entries) if one.content is not None)
    other = msgspec.structs.replace(entries[at], content=b"{}")
    for forged in (
        [*entries[:at], other, *entries[at + 1 :]],
        [*entries, entries[-1]],
        entries[1:],
        entries[:-1],
        [],
    ):
        writer = BaseWriter(base.head, 0)
        for one in forged:
            writer.add(one)
        with pytest.raises(DamagedLogError, match="begins behind position 49"):
            await _begun(msgspec.structs.replace(base, payload=writer.finish().payload))
    for payload in (b"none", b"(\xb5/\xfd"):
        with pytest.raises(DamagedLogError, match="begins behind position 49"):
            await _begun(msgspec.structs.replace(base, payload=payload))


async def _begun(base: Base) -> None:
    """Begin a log with another base, and fold it."""
    log = MemoryLog()
    await log.begin_behind(base.head, base)
    await state_at_base(log)


async def test_a_base_is_read_within_limits(
    fault: SqlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await export_stretch(fault, tmp_path / "a.muster", first=50)
    base = await BundleLog(tmp_path / "a.muster").read_base()
    assert base is not None
    monkeypatch.setattr("daemon.log.base_records.limits_of", lambda: Limits(bundle_line_bytes=100))
    with pytest.raises(InputLimitError, match="bundle-line-bytes"):
        list(entries_of(base, "a log"))
