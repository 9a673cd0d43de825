"""`muster run --shadow` and `muster shadow`, on the command line."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from daemon.cluster.stepped import SteppedCluster, VirtualClock
from daemon.fold import refolder
from daemon.log.opening import open_log
from daemon.loop import Loop, Running
from daemon.loop_mode import SteppedMode
from daemon.simulation import policy_of, run_loop, simulate
from features.table import FEATURES
from projections import snapshot
from projections.state import State
from replay.shadow_report import CLASSES
from simulator.cluster import SimulatedCluster
from simulator.scenario import parse_scenario
from tests.daemon.cli.builders import documents, muster, scenario

PLACED: Final = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: T4}}
    status: {allocatable: {cpu: 16, pods: 20, nvidia.com/gpu: 4}}
    count: 2
steps:
  - at: 10s
    apply:
      - kind: Pod
        metadata: {name: early, annotations: {volcano.sh/card.name: T4}}
        spec: &spec {schedulerName: volcano, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
      - kind: Pod
        metadata: {name: never, annotations: {volcano.sh/card.name: T4}}
        spec: *spec
  - {at: 100s, patch: [{kind: Pod, name: early, merge: {spec: {nodeName: n2}}}]}
  - {at: 118s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}
until: 120s
"""
PREEMPTED: Final = """\
policy: {actions: "enqueue, allocate, preempt", tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, {plugins: [{name: predicates}, {name: nodeorder}]}]}
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1, pods: 20}}}
  - {kind: PriorityClass, metadata: {name: high}, value: 1000}
  - {kind: PodGroup, metadata: {name: low}, spec: {minMember: 1}}
  - kind: Pod
    metadata: {name: low, annotations: {scheduling.k8s.io/group-name: low, volcano.sh/preemptable: "true"}}
    spec: {schedulerName: volcano, nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
    status: {phase: Running}
steps:
  - at: 10s
    apply:
      - {kind: PodGroup, metadata: {name: high}, spec: {minMember: 1, priorityClassName: high}}
      - kind: Pod
        metadata: {name: high, annotations: {scheduling.k8s.io/group-name: high}}
        spec: {schedulerName: volcano, priorityClassName: high, priority: 1000, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
  - {at: 80s, patch: [{kind: Node, name: n1, merge: {metadata: {labels: {a: b}}}}]}
until: 90s
"""


async def shadow(text: str, path: Path, hold_seconds: int = 300) -> State:
    """Run a shadow in virtual time. Steps of the scenario are the other scheduler."""
    found = parse_scenario(f"scenario: a shadow\n{text}", "shadow.yaml")
    running = Running(
        holder="shadow",
        version="1",
        policy=policy_of(found),
        scheduler_names=("volcano",),
        is_shadow=True,
        shadow_hold_ns=hold_seconds * 1_000_000_000,
    )
    log = await open_log(str(path), "write")
    try:
        cluster = SteppedCluster(SimulatedCluster(found))
        clock = VirtualClock(cluster, found.until_ns)
        refold = refolder(log, with_views=True)
        loop = Loop(log, cluster, clock, refold, running, mode=SteppedMode(clock))
        await run_loop(loop, None)
    finally:
        await log.close()
    assert loop.engine is not None
    return loop.engine.state


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a shadow: one pod is placed late, one never."""
    path = tmp_path_factory.mktemp("shadow") / "shadow.db"
    asyncio.run(shadow(PLACED, path))
    return path


def test_the_report_is_a_table_that_adds_up(placed: Path) -> None:
    result = muster("shadow", "report", placed, "--pods")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["earlier", "1", "1", "90.0", "90.0", "0.025"] in lines
    assert ["only", "muster", "1", "1", "108.0", "108.0", "0.03"] in lines
    assert ["all", "2", "2"] in lines
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if "placed" not in line)
    assert "default/early" in result.stdout


def test_json_has_the_classes_and_on_demand_every_pod(placed: Path) -> None:
    [document] = documents(muster("shadow", "report", placed, "--output", "json"))
    classes = document["classes"]
    assert isinstance(classes, list)
    assert [one["name"] for one in classes] == list(CLASSES)
    assert sum(one["pods"] for one in classes) == document["pods"] == 2
    assert "accounts" not in document
    [document] = documents(muster("shadow", "report", placed, "--pods", "--output", "json"))
    accounts = document["accounts"]
    assert isinstance(accounts, list)
    assert [(one["pod"], one["in_class"]) for one in accounts] == [
        ("default/early", "earlier"),
        ("default/never", "only muster"),
    ]


def test_a_report_up_to_a_moment_knows_nothing_of_what_came_later(placed: Path) -> None:
    [document] = documents(
        muster("shadow", "report", placed, "--to", "50s", "--output", "json", "--pods")
    )
    accounts = document["accounts"]
    assert isinstance(accounts, list)
    assert {one["in_class"] for one in accounts} == {"only muster"}


def test_commands_say_that_nothing_was_carried_out(placed: Path) -> None:
    assert "would bind default/" in muster("tell", placed).stdout
    replayed = muster("replay", placed)
    assert (replayed.exit_code, "of a shadow, not carried out" in replayed.stdout) == (0, True)
    waiting = muster("why", "Pod/default/never", "--log", placed).stdout
    assert "waits for its scheduler, volcano; muster would place it on n" in waiting
    assert "would bind" in waiting
    assert "placed by volcano" in muster("why", "Pod/default/early", "--log", placed).stdout
    assert muster("rebuild", "--log", placed).exit_code == 0


def test_what_if_refuses_the_log_of_a_shadow(placed: Path, tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    change.write_text("drop: [{kind: Node, name: n1}]\n", encoding="utf-8")
    result = muster("what-if", placed, "--at", "10s", "--change", change)
    assert result.exit_code == 2
    assert "is the log of a shadow" in result.stderr


async def test_an_eviction_is_expected_for_a_while_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "evicted.db"
    state = await shadow(PREEMPTED, path, hold_seconds=60)
    told = await asyncio.to_thread(lambda: muster("tell", path).stdout)
    assert "would evict 1 pod of default/low" in told
    assert "was not evicted from n1 in time" in told
    assert not state.evictions
    low = next(pod for pod in state.cluster.pods.values() if pod.key == "default/low")
    assert low.node == "n1"
    assert not low.evicted
    state.validate()
    assert snapshot.restore(snapshot.take(state), FEATURES).cluster.is_shadow
    replayed = await asyncio.to_thread(lambda: muster("replay", path))
    assert replayed.exit_code == 0
    report = await asyncio.to_thread(lambda: muster("shadow", "report", path).stdout)
    assert "muster would have evicted 1 pod" in report


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--shadow"], "--shadow needs --of NAME,..."),
        (["--of", "volcano"], "--of belongs to --shadow"),
        (["--shadow", "--of", "a,,b"], "--of: 'a,,b' holds an empty name"),
        (["--shadow", "--of", "a", "--scheduler-name", "b"], "--scheduler-name cannot be combined"),
        (["--shadow", "--of", "a", "--simulate", "x", "--world", "y"], "needs an API server"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_errors(
    words: list[str], says: str, tmp_path: Path
) -> None:
    result = muster("run", *words, "--log", tmp_path / "x.db")
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "x.db").exists()


def test_settings_that_mean_nothing_are_errors(tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    for text, says in (
        ("shadow_of: ['']", "shadow_of has an empty name"),
        ("{shadow_of: [a], shadow_hold_seconds: 0}", "shadow_hold_seconds must be more than"),
    ):
        config.write_text(text, encoding="utf-8")
        result = muster("run", "--config", config, "--log", tmp_path / "x.db")
        assert (result.exit_code, says in result.stderr) == (2, True)


def test_a_daemon_that_acts_does_not_go_on_with_the_log_of_a_shadow(
    placed: Path, tmp_path: Path
) -> None:
    path = scenario(tmp_path, "cluster: []\n")
    before = placed.read_bytes()
    result = muster(
        *("run", "--simulate", path, "--world", tmp_path / "w", "--log", placed, "--listen", "")
    )
    assert result.exit_code == 2
    assert "is the log of a shadow" in result.stderr
    assert placed.read_bytes() == before


async def test_only_the_log_of_a_shadow_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    log = await open_log(str(path), "write")
    await simulate(parse_scenario("scenario: one\n" + PLACED, "x.yaml"), log, with_views=False)
    await log.close()
    result = await asyncio.to_thread(lambda: muster("shadow", "report", path))
    assert result.exit_code == 2
    assert "is not the log of a shadow" in result.stderr
