"""Record the logs in `bases/`: `python -m tests.histories.write_bases`.

For each of some features there is a whole log, made by a scenario, and a stretch of it that begins with a base in its middle. Later releases
read both: what stands in a base is a promise. Written once; a changed kind of record is raised when it is read (`events/upcast.py`).
"""

import asyncio
from pathlib import Path
from typing import Final

import zstandard

from daemon.log.memory import MemoryLog
from daemon.queries.bundles import export_stretch
from daemon.simulation import simulate
from tests.histories.recorded import record
from tests.scenarios.play import HERE as SCENARIOS
from tests.scenarios.play import scenario_of

BASES: Final = Path(__file__).parent / "bases"

RECORDED: Final = {
    "quota": "capacity/a_resource_that_the_capability_does_not_name_has_no_limit",
    "gangs": "gangs/a_running_gang_that_loses_a_pod_gets_a_new_one_without_a_vote",
    "preemption": "preempt/freed_room_is_kept_for_the_preemptor",
    "reclaim": "reclaim/a_queue_reclaims_its_share",
    "topology": "topology/a_gang_is_nominated_in_the_domain_that_is_being_freed",
    "shared_cards": "devices/whole_gpus_and_shares_of_gpus_coexist_on_a_node",
    "pools": "pools/a_task_that_does_not_run_yet_is_evicted_at_once",
    "fair_share": "pools/fair_share_can_release_the_newest_tasks",
    "affinity": "preempt/preemption_counts_nominated_pods_in_anti_affinity",
    "faults": "faults/with_process_recover_enable_only_the_faulty_pod_is_deleted_and_the_job_never_escalates",
}
"""Name of a log to the scenario that makes it."""


async def write(name: str, scenario: str, folder: Path) -> None:
    """Record one log, and a stretch of it from its middle on."""
    log = MemoryLog()
    await simulate(scenario_of(SCENARIOS / f"{scenario}.yaml"), log, with_views=False)
    await record(log, folder / f"{name}.muster")
    path = folder / f"{name}_from_the_middle.muster"
    await export_stretch(log, path, first=log.head.position // 2, replaces=True)
    packed = zstandard.ZstdDecompressor().decompressobj()
    path.write_bytes(packed.decompress(path.read_bytes()))


async def main(folder: Path) -> None:
    """Record all logs."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    for name, scenario in RECORDED.items():
        await write(name, scenario, folder)


if __name__ == "__main__":
    asyncio.run(main(BASES))
