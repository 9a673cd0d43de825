"""Logs that hold objects made to stop a daemon: it starts on them, folds them, and serves others."""

from pathlib import Path

import pytest

from daemon.fold import fold
from daemon.log.contract import Log
from daemon.log.copying import copy_whole
from daemon.log.opening import open_log
from daemon.simulation import SimulationRun, simulate
from features.table import FEATURES
from projections import snapshot
from simulator.scenario import parse_scenario
from tests.histories.write_attacked import DURABLE, FORGED

LOGS = sorted((Path(__file__).parent / "attacked").glob("*.muster"))

CANARY = """
scenario: a pod that has nothing to do with the attack
cluster:
  - {kind: Node, metadata: {name: canaries}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
  - kind: Pod
    metadata: {name: canary}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
"""


async def served(log: Log) -> SimulationRun:
    """A daemon on the log, in a cluster with a pod of others."""
    return await simulate(parse_scenario(CANARY, "canary.yaml"), log, with_views=True)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
async def test_a_daemon_starts_on_an_attacked_log_and_serves_others(
    path: Path, tmp_path: Path
) -> None:
    log = await open_log(f"sqlite:///{tmp_path}/log.db", "write")
    await copy_whole(await open_log(str(path)), log)
    before = await fold(log)
    before.validate()
    snapshot.restore(snapshot.take(before), FEATURES).validate()
    ended = await served(log)
    pods = {pod.key: pod.node for pod in ended.state.cluster.pods.values()}
    assert pods == {"default/canary": "canaries"}
    ended.state.validate()
    (await fold(log)).validate()
    await log.close()


def test_every_attack_has_its_log() -> None:
    assert {path.stem for path in LOGS} == {*FORGED, *DURABLE, "nested_3000_deep"}
