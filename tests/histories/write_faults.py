"""Record the logs in `faults/`: `python -m tests.histories.write_faults`.

There is one log for each way in which jobs are restarted after faults, made by a scenario, and beside it what `muster tell`
prints of it. A change of the deciding code that decides otherwise shows as a divergence of these logs. If it is meant, raise
the decider version, record the logs again, and review the changes of the texts.
"""

import asyncio
from pathlib import Path
from typing import Final

from daemon.log.bundle_log import BundleLog
from daemon.log.contract import ReadableLog
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from replay.narrate import narrate
from tests.histories.recorded import record
from tests.scenarios.play import HERE as SCENARIOS
from tests.scenarios.play import scenario_of

FAULTS: Final = Path(__file__).parent / "faults"

RECORDED: Final = {
    "off": "with_fault_scheduling_off_a_job_stays_although_the_policy_restarts_jobs",
    "grace": "pods_on_a_stopped_node_are_deleted_by_force_after_graceovertime",
    "force": "a_fault_of_one_pod_of_a_gang_restarts_the_whole_gang_and_only_its_own_pod_gets_another_node",
    "pod_level": "with_scope_pod_a_pod_that_finds_no_other_node_takes_its_whole_gang_along_after_12_seconds",
    "logical_super_pod": "after_six_attempts_the_whole_logical_super_pod_is_deleted",
    "process_level": "with_process_recover_enable_only_the_faulty_pod_is_deleted_and_the_job_never_escalates",
    "sub_health_grace_exit": "with_graceexit_a_job_on_a_sub_healthy_chip_is_evicted_with_its_grace_period",
    "sub_health_force_exit": "with_forceexit_a_job_on_a_sub_healthy_chip_is_deleted_at_once",
}
"""Name of a log to the scenario, in `tests/scenarios/faults/`, that makes it."""


async def told(log: ReadableLog) -> str:
    """Return what `muster tell` prints of a log."""
    lines: list[str] = []
    start_ns: int | None = None
    async for entries in log.read():
        for entry in entries:
            start_ns = entry.record.recorded_at_ns if start_ns is None else start_ns
            event = event_of(entry.record)
            lines += narrate(entry.record, event, entry.content, start_ns=start_ns)
    return "\n".join(lines) + "\n"


async def write(name: str, scenario: str, folder: Path) -> None:
    """Record one log with its text."""
    log = MemoryLog()
    await simulate(scenario_of(SCENARIOS / "faults" / f"{scenario}.yaml"), log, with_views=False)
    path = folder / f"{name}.muster"
    await record(log, path)
    kept = BundleLog(path)
    path.with_suffix(".txt").write_text(await told(kept), encoding="utf-8")
    await kept.close()


async def main(folder: Path) -> None:
    """Record all logs."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    for name, scenario in RECORDED.items():
        await write(name, scenario, folder)


if __name__ == "__main__":
    asyncio.run(main(FAULTS))
