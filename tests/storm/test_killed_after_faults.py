"""A daemon that is killed while it moves pods after faults: each deletion is decided once, and nothing is forgotten."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Final

from daemon.log.opening import open_log
from events.codec import event_of
from events.decisions.reschedule import RescheduleDecided
from events.normalize import Json, JsonObject
from simulator.scenario import Scenario, parse_scenario
from tests.storm.arrivals import LAST
from tests.storm.daemon_process import DaemonProcess, MakeDaemon, chance
from tests.storm.fault_storm import job, node, ready
from tests.storm.judge import entries_of
from tests.storm.test_killed import weathered

SEED: Final = 7
NODES: Final = 10
KILLS: Final = 3
FAULT_SECONDS: Final = 7.0
EVERY_SECONDS: Final = 0.5
POLICY: Final[JsonObject] = {
    "actions": "enqueue, reschedule, allocate",
    "configurations": [
        {"name": "reschedule", "arguments": {"graceOverTime": "1s", "restartsPerHour": "1000"}}
    ],
    "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "predicates"}]}],
}


async def test_a_daemon_killed_after_faults_deletes_each_pod_once(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    path = tmp_path / "faults.json"
    scenario = write_faults(path)
    daemon = make_daemon(str(tmp_path / "killed.db"), path)
    for index in range(KILLS):
        await daemon.start()
        await daemon.until_told()
        await asyncio.sleep(0.2 + 2 * chance(SEED, "kill", index))
        await daemon.kill()
    await weathered(daemon, scenario)
    decided = await deletions(daemon)
    assert len(decided) >= NODES // 2, "pods are moved all the time"
    assert set(decided.values()) == {1}, decided.most_common(3)


async def deletions(daemon: DaemonProcess) -> Counter[tuple[str, str]]:
    """How often it was decided to delete each pod, by how."""
    log = await open_log(daemon.log)
    try:
        entries = await entries_of(log)
    finally:
        await log.close()
    events = (event_of(entry.record) for entry in entries)
    return Counter(
        (one.uid, event.mode)
        for event in events
        if isinstance(event, RescheduleDecided)
        for one in event.evictions
    )


def write_faults(path: Path) -> Scenario:
    """Gangs of two modes, and a node that stops every half a second, for a second."""
    modes = ({"fault-scheduling": "grace"}, {"fault-scheduling": "force", "pod-rescheduling": "on"})
    jobs: list[Json] = [job(f"j{index}", "gpu", 3, mode) for index, mode in enumerate(modes)]
    steps: list[JsonObject] = [{"at": "0s", "apply": jobs}]
    for turn in range(int(FAULT_SECONDS / EVERY_SECONDS)):
        name, at = f"n{turn * 3 % NODES}", 1 + turn * EVERY_SECONDS
        steps.append({"at": f"{at:.3f}s", "patch": [ready(name, "Unknown")]})
        steps.append({"at": f"{at + 1.001:.3f}s", "patch": [ready(name, "True")]})
    steps.sort(key=lambda step: float(str(step["at"]).removesuffix("s")))
    last: JsonObject = {
        "kind": "Pod",
        "metadata": {"name": LAST},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
    }
    steps.append({"at": f"{FAULT_SECONDS + 4:.0f}s", "apply": [last]})
    document: JsonObject = {
        "scenario": "faults",
        "period": "50ms",
        "policy": POLICY,
        "cluster": [node(f"n{index}", is_npu=False) for index in range(NODES)],
        "steps": list(steps),
    }
    text = json.dumps(document)
    path.write_text(text)
    return parse_scenario(text, str(path))
