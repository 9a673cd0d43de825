"""The recorded logs of restarts after faults (`write_faults.py`) still read as they did; `test_histories.py` replays them."""

from collections import Counter

import pytest

from daemon.cli.known_divergence import SUFFIX
from daemon.log.bundle_log import BundleLog
from events.codec import event_of
from events.decisions.reschedule import RescheduleDecided, RestartEnded
from tests.histories.write_faults import FAULTS, RECORDED, told
from tests.scenarios.play import HERE as SCENARIOS

DECIDED = {
    "off": {},
    "grace": {("grace", "job"): 1, ("force", "job"): 1, "Restarted": 1},
    "force": {("force", "job"): 1, "Restarted": 1},
    "pod_level": {("force", "pod"): 1, ("force", "job"): 1},
    "logical_super_pod": {("grace", "pod"): 1, ("grace", "super_pod"): 1, "Restarted": 1},
    "process_level": {("force", "pod"): 1},
    "sub_health_grace_exit": {("grace", "job"): 1, "Restarted": 1},
    "sub_health_force_exit": {("force", "job"): 1, "Restarted": 1},
}
"""Name of a log to how often it deletes pods in each mode and scope, and how restarts end in it."""


def test_every_way_of_restarting_has_its_log_and_its_text() -> None:
    names = {path.name for path in FAULTS.iterdir() if not path.name.endswith(SUFFIX)}
    assert names == {f"{name}.{end}" for name in RECORDED for end in ("muster", "txt")}
    assert set(DECIDED) == set(RECORDED)
    for scenario in RECORDED.values():
        assert (SCENARIOS / "faults" / f"{scenario}.yaml").is_file()


@pytest.mark.parametrize("name", RECORDED)
async def test_tell_prints_a_recorded_log_as_it_did(name: str) -> None:
    log = BundleLog(FAULTS / f"{name}.muster")
    text = (FAULTS / f"{name}.txt").read_text(encoding="utf-8")
    assert (await told(log)).splitlines() == text.splitlines()
    await log.close()


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_log_shows_the_way_of_restarting_that_it_is_named_after(name: str) -> None:
    log = BundleLog(FAULTS / f"{name}.muster")
    found: Counter[tuple[str, str] | str] = Counter()
    async for entries in log.read():
        for entry in entries:
            event = event_of(entry.record)
            if isinstance(event, RescheduleDecided):
                found[event.mode, event.scope] += 1
            elif isinstance(event, RestartEnded):
                found[event.code] += 1
    assert found == DECIDED[name]
    await log.close()
