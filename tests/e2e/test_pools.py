"""Pools of the decider `priority` on a real API server (determined 3.7, 5.3, 5.4): the seven steps, gangs, and
priorities that change while jobs run."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

import pytest

from daemon.log.opening import open_log
from daemon.queries.jobs import all_jobs
from events.codec import event_of
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import ReleaseDecided
from events.duration import SECOND
from features.pools.facts import LABEL
from projections.job_option_keys import DETERMINED_TYPE, PRIORITY, RELEASE_REQUESTED, TASK
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.pod_annotations import COSCHEDULING_MIN
from replay.job_list import JobRow
from tests.checkout import ROOT
from tests.control_plane.api import GONE, Object
from tests.control_plane.kubelet import FINISH
from tests.control_plane.manifests import CARD, pod
from tests.e2e.daemon import Daemon
from tests.e2e.judge import events_of
from tests.e2e.rig import (
    PATIENCE_SECONDS,
    POLL_SECONDS,
    POOL,
    Pods,
    Rig,
    grouped,
    node_of,
    phase_of,
)
from tests.e2e.test_trouble import SOON
from tests.storm.judge import entries_of

COSCHEDULING: Final = "pod-group.scheduling.sigs.k8s.io/name"
CHECKPOINT_SECONDS: Final = 0.5
PASSES_SECONDS: Final = 1.5
"""Time for at least two passes of a pool, which are at least 0.5 s apart."""
TRIALS: Final = 20
CARDS: Final = 8
DEADLINE_SECONDS: Final = 12
"""More than the daemon needs to start and to get its lease again."""


class Workloads:
    """What runs in pods: those that are asked to exit write a checkpoint, succeed, and are created again.

    A pod `name-rN` is followed by `name-r(N+1)`, which states the same task. Names in `deaf` do not watch the request;
    those in `held` go on with their checkpoint until they are taken out.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.deaf: set[str] = set()
        self.held: set[str] = set()
        self.asked: dict[str, str] = {}
        """Name of a pod to the annotation with which it was asked; in the order in which that was seen."""
        self.labels: dict[str, str] = {}
        """Name of a pod to the label beside it."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["Workloads"]:
        """Watch the requests, meanwhile."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(group))
            try:
                yield self
            finally:
                work.cancel()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                found = await self._rig.pods()
            except GONE:
                found = []
            for one in found:
                asked = one["metadata"].get("annotations", {}).get(RELEASE_REQUESTED)
                if asked and name_of(one) not in self.asked:
                    self.asked[name_of(one)] = asked
                    self.labels[name_of(one)] = one["metadata"].get("labels", {}).get(LABEL, "")
                    if name_of(one) not in self.deaf:
                        group.create_task(self._exit(one))
            await asyncio.sleep(POLL_SECONDS)

    async def _exit(self, asked: Object) -> None:
        await asyncio.sleep(CHECKPOINT_SECONDS)
        while name_of(asked) in self.held:  # noqa: ASYNC110 - the test decides when
            await asyncio.sleep(POLL_SECONDS)
        await finish(self._rig, name_of(asked))
        stem, _, run = name_of(asked).rpartition("-r")
        await self._rig.until(lambda found: phase_of(one_of(found, name_of(asked))) == "Succeeded")
        if stem:
            await again(self._rig, asked, f"{stem}-r{int(run) + 1}")


async def test_the_seven_steps_of_priority(rig: Rig) -> None:
    """Determined 3.7 with checkpoints of a moment: E1 has 20 trials of one GPU, E2 one of 4, N is a notebook, ..."""
    await rig.add_nodes(1, CARDS)
    daemon = await started(rig, priorityDirection="lower_first")
    times = Times()
    async with Workloads(rig).at_work() as work:
        # 1: eight trials of E1 start, the oldest.
        e1 = [f"e1-{index:02}-r1" for index in range(1, TRIALS + 1)]
        for name in e1:
            await make(rig, name, cards=1, priority=2, group="e1", task=name[:-3])
        await times.take("1: E1 on 8", rig, lambda found: on(found) == set(e1[:8]))

        # 2: the four newest are asked to exit for E2. While some of them write checkpoints, nothing starts.
        work.held = {e1[4], e1[5]}
        await make(rig, "e2-r1", cards=4, priority=1, group="e2")
        left = [e1[4], e1[5], "e1-07-r2", "e1-08-r2"]
        await rig.until(lambda found: set(left) <= {name_of(one) for one in found})
        assert set(work.asked) == set(e1[4:8])
        assert set(work.labels.values()) == {"true"}
        await asyncio.sleep(PASSES_SECONDS)
        assert on(await rig.pods()) == set(e1[:6]), "two slots stay empty for E2"
        work.held = set()
        held = {*e1[:4], "e2-r1"}
        await times.take("2: E1 on 4, E2 on 4", rig, lambda found: on(found) == held)

        # 3: the notebook waits for all trials of E1; those that were preempted come first.
        await make(rig, "n", cards=1, priority=3, group="n", kind="NOTEBOOK")
        await asyncio.sleep(PASSES_SECONDS)
        assert on(await rig.pods()) == held
        back = {f"e1-0{index}-r2" for index in range(5, 9)}
        for name in e1[:4]:
            await finish(rig, name)
        await times.take("3: E1 again", rig, lambda found: on(found) == {*back, "e2-r1"})
        assert "n" not in on(await rig.pods())
        for name in (*back, "e2-r1"):
            await finish(rig, name)
        await rig.until(lambda found: on(found) == set(e1[8:16]))
        for name in e1[8:12]:
            await finish(rig, name)
        last = {*e1[12:], "n"}

        # 4: four more slots are free than E1 needs: N has the first pass in which no trial waits.
        await rig.until(lambda found: on(found) == set(e1[12:]))
        await finish(rig, e1[12])
        await times.take("4: N", rig, lambda found: on(found) == last - {e1[12]})
        for name in e1[13:]:
            await finish(rig, name)
        await rig.until(lambda found: on(found) == {"n"})

        # 5: E3 needs all eight, and the notebook is no victim.
        await make(rig, "e3-r1", cards=CARDS, priority=1, group="e3")
        await rig.until(lambda found: "tasks that cannot be preempted" in told(found, "e3-r1"))

        # 6: E4 is backfill.
        await make(rig, "e4-r1", cards=4, priority=2, group="e4")
        await times.take("6: E4 by backfill", rig, lambda found: on(found) == {"n", "e4-r1"})
        listed = [
            ("e3", "queued", "VICTIMS_NOT_PREEMPTIBLE", 0),
            ("e4", "backfilled", "", 4),
            ("n", "running", "", 1),
        ]
        await until_jobs(daemon, lambda jobs: [row(one) for one in jobs] == listed)

        # 7: the notebook is killed, E4 writes a checkpoint, and E3 starts; E4 goes on after it.
        assert "e4-r1" not in work.asked
        (await rig.api.delete(PODS.object_path("n", rig.namespace))).expect(200)
        await times.take("7: E3 on 8", rig, lambda found: on(found) == {"e3-r1"})
        assert "e4-r1" in work.asked
        await rig.until(lambda found: any(name_of(one) == "e4-r2" for one in found))
        await asyncio.sleep(PASSES_SECONDS)
        assert on(await rig.pods()) == {"e3-r1"}
        await finish(rig, "e3-r1")
        await times.take("8: E4 goes on", rig, lambda found: on(found) == {"e4-r2"})
    times.show()
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert rig.kubelet.rejected == []
    found = await decisions(daemon)
    bound = [name for word, names in found for name in names if word in ("bind", "backfill")]
    assert bound[:9] == [*e1[:8], "e2-r1"]
    assert set(bound[9:13]) == back
    assert bound[13:-4] == e1[8:]
    assert bound[-4:] == ["n", "e4-r1", "e3-r1", "e4-r2"]
    asked = [name for word, names in found for name in names if word == "release"]
    assert asked == [*reversed(e1[4:8]), "e4-r1"]
    assert [names for word, names in found if word == "backfill"] == [["e4-r1"]]
    assert not [one for one in found if one[0] == "evict"], "all exit by themselves"


async def test_a_task_that_does_not_exit_is_evicted_at_its_deadline(rig: Rig) -> None:
    """The daemon is killed while it waits, and asks no other task when it is back."""
    await rig.add_nodes(1, CARDS)
    daemon = await started(rig, SOON, preemptionTimeout=f"{DEADLINE_SECONDS}s")
    stay = {"notebook", "trial-1"}
    async with Workloads(rig).at_work() as work:
        await make(rig, "notebook", cards=2, priority=30, kind="NOTEBOOK")
        for name in ("trial-1", "trial-2"):
            await make(rig, name, cards=3, priority=40)
            await asyncio.sleep(1.1)  # Of jobs of one second the hash of the name decides.
        await rig.until(lambda found: on(found) == stay | {"trial-2"})
        work.deaf = {"trial-1", "trial-2"}
        await make(rig, "large", cards=3, priority=60)
        await rig.until(lambda _: bool(work.asked))
        await daemon.kill()
        await daemon.start()
        await daemon.until_ready()
        found = await rig.until(lambda found: on(found) == {"large", *stay})
        assert "trial-2" not in {name_of(one) for one in found}, "evicted"
    assert list(work.asked) == ["trial-2"]
    stated = datetime.fromisoformat(work.asked["trial-2"]).timestamp()
    await rig.judged(daemon)
    log = await open_log(daemon.log)
    try:
        entries = [(event_of(one.record), one.record) for one in await entries_of(log)]
    finally:
        await log.close()
    decided = [one for one in entries if isinstance(one[0], EvictionDecided)]
    (release, _), (eviction, record) = decided
    assert isinstance(release, ReleaseDecided)
    assert isinstance(eviction, EvictionDecided)
    assert eviction.code == "DEADLINE"
    assert int(stated) == release.deadline_ns // SECOND
    late = (record.recorded_at_ns - release.deadline_ns) / SECOND
    assert late >= 0.0
    print(f"evicted {late:.2f} s after the deadline")  # noqa: T201


async def test_two_gangs_that_need_all_nodes_run_one_after_the_other(rig: Rig) -> None:
    """Determined 5.3: their pods come in turn, and neither is ever half bound."""
    await rig.add_nodes(4, cards=4)
    daemon = await started(rig)
    times = Times()
    gangs = {gang: [f"{gang}-{index}" for index in range(4)] for gang in ("a", "b")}
    for index in range(4):
        for gang in gangs:
            await make(rig, gangs[gang][index], cards=4, group=gang, least=4)
    found = await times.take("first gang", rig, lambda found: len(on(found)) == 4)
    first = "a" if gangs["a"][0] in on(found) else "b"
    second = "b" if first == "a" else "a"
    assert on(found) == set(gangs[first])
    assert len({node_of(one) for one in found if node_of(one)}) == 4
    await asyncio.sleep(PASSES_SECONDS)
    assert on(await rig.pods()) == set(gangs[first])
    for name in gangs[first][:3]:
        await finish(rig, name)
    await rig.until(lambda found: on(found) == {gangs[first][3]})
    await asyncio.sleep(PASSES_SECONDS)
    assert on(await rig.pods()) == {gangs[first][3]}, "three nodes are free, the gang needs four"
    await finish(rig, gangs[first][3])
    await times.take("second gang", rig, lambda found: on(found) == set(gangs[second]))
    times.show()
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (8, {})
    assert rig.kubelet.rejected == []
    bound = [sorted(names) for word, names in await decisions(daemon) if word == "bind"]
    assert bound == [gangs[first], gangs[second]]


@pytest.mark.parametrize("has_object", [False, True], ids=["labels", "PodGroup"])
async def test_a_gang_is_preempted_by_a_gang_and_comes_back_whole(
    rig: Rig, has_object: bool
) -> None:
    """Determined 5.4, limitation 2: half of the nodes would do, and the whole gang is asked. Its pods that have ended do
    not count when it comes back."""
    await rig.add_nodes(4, cards=4)
    gang: dict[str, Any] = {"group": "g", "least": 4}
    if has_object:
        await rig.group("g", least=4)
        gang = {"pod_group": "g"}
    daemon = await started(rig)
    times = Times()
    async with Workloads(rig).at_work() as work:
        victims = [f"g-{index}-r1" for index in range(4)]
        for name in victims:
            await make(rig, name, cards=4, priority=40, task=name[:-3], **gang)
        await times.take("gang of 4", rig, lambda found: on(found) == set(victims))
        causes = ["h-0", "h-1"]
        work.held = {victims[3]}
        for name in causes:
            await make(rig, name, cards=4, priority=60, group="h", least=2)
        back = [f"g-{index}-r2" for index in range(4)]
        await rig.until(lambda found: set(back[:3]) <= {name_of(one) for one in found})
        assert set(work.asked) == set(victims)
        work.held = set()
        await times.take("gang of 2", rig, lambda found: on(found) == set(causes))
        await asyncio.sleep(PASSES_SECONDS)
        assert on(await rig.pods()) == set(causes), "two nodes are free, the gang needs four"
        if has_object:
            path = POD_GROUPS.object_path("g", rig.namespace)
            phase = (await rig.api.get(path)).expect(200)["status"]["phase"]
            assert phase in ("Pending", "Inqueue"), "it waits, although four of its pods succeeded"
        await finish(rig, "h-0")
        await finish(rig, "h-1")
        await times.take("gang of 4 again", rig, lambda found: on(found) == set(back))
    times.show()
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (10, {})
    assert rig.kubelet.rejected == []
    found = [(word, sorted(names)) for word, names in await decisions(daemon)]
    assert found == [("bind", victims), ("release", victims), ("bind", causes), ("bind", back)]


async def test_a_priority_that_changes_counts_at_once_and_restarts_nothing(rig: Rig) -> None:
    """Determined 5.4, limitation 3, and 6.3; of pods with a PodGroup and without."""
    await rig.add_nodes(1, CARDS)
    daemon = await started(rig)
    times = Times()
    async with Workloads(rig).at_work() as work:
        for name in ("runs-0-r1", "runs-1-r1"):
            await make(rig, name, cards=4, priority=50, group="runs", task=name[:-3])
        runs = {"runs-0-r1", "runs-1-r1"}
        await rig.until(lambda found: on(found) == runs)
        before = uids(await rig.pods())
        await muster(rig, "group", "set-priority", f"{rig.namespace}/runs", "45")
        await until_jobs(daemon, lambda jobs: [one.priority for one in jobs] == [45])

        await rig.group("waits", least=1)
        path = POD_GROUPS.object_path("waits", rig.namespace)
        low: Object = {"metadata": {"annotations": {PRIORITY: "40"}}}
        (await rig.api.patch(path, low)).expect(200)
        await make(rig, "waits-r1", cards=4, pod_group="waits", task="waits")
        await asyncio.sleep(PASSES_SECONDS)
        assert on(await rig.pods()) == runs
        assert (uids(await rig.pods(), runs), work.asked) == (before, {}), "nothing is restarted"

        await muster(rig, "group", "set-priority", f"{rig.namespace}/waits", "60")
        now = {"runs-0-r1", "waits-r1"}
        await times.take("waits is raised to 60", rig, lambda found: on(found) == now)
        assert list(work.asked) == ["runs-1-r1"]
        await rig.until(lambda found: "runs-1-r2" in {name_of(one) for one in found})

        await muster(rig, "group", "set-priority", f"{rig.namespace}/runs", "70")
        now = {"runs-0-r1", "runs-1-r2"}
        await times.take("runs is raised to 70", rig, lambda found: on(found) == now)
        assert list(work.asked) == ["runs-1-r1", "waits-r1"]
        await rig.until(lambda found: "waits-r2" in {name_of(one) for one in found})
        assert uids(await rig.pods(), {"runs-0-r1"}) == [before[0]], "it ran all the time"
    times.show()
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert rig.kubelet.rejected == []
    assert await decisions(daemon) == [
        ("bind", ["runs-0-r1"]),
        ("bind", ["runs-1-r1"]),
        ("release", ["runs-1-r1"]),
        ("bind", ["waits-r1"]),
        ("release", ["waits-r1"]),
        ("bind", ["runs-1-r2"]),
    ]


class Times:
    """Seconds that steps take."""

    def __init__(self) -> None:
        self._taken: dict[str, float] = {}

    async def take(self, what: str, rig: Rig, are_so: Callable[[Pods], bool]) -> Pods:
        """Wait for the pods, and keep how long that was."""
        before = asyncio.get_running_loop().time()
        found = await rig.until(are_so)
        self._taken[what] = asyncio.get_running_loop().time() - before
        return found

    def show(self) -> None:
        """Print them."""
        print({what: f"{seconds:.1f} s" for what, seconds in self._taken.items()})  # noqa: T201


async def started(rig: Rig, settings: Mapping[str, Any] | None = None, **pool: Any) -> Daemon:
    """A daemon with one pool of the decider `priority`: the nodes of the test."""
    own = {"name": "own", "nodeSelector": {POOL: rig.namespace}, "slots": [CARD]}
    whole = {
        "pools": [{**own, "decider": "priority", **pool}],
        "defaultComputePool": "own",
        "defaultAuxPool": "own",
    }
    policy = rig.folder / "policy.yaml"
    policy.write_text(json.dumps(whole))
    return await rig.started(policy=str(policy), **(settings or {}))


async def make(
    rig: Rig,
    name: str,
    *,
    cards: int,
    priority: int | None = None,
    group: str = "",
    least: int = 1,
    pod_group: str | None = None,
    task: str = "",
    kind: str = "",
) -> Object:
    """A pod: alone, or in the group of its coscheduling labels, or in a PodGroup."""
    manifest = {**pod(rig.namespace, name), "spec": rig.spec(cards)}
    gang = {COSCHEDULING: group, COSCHEDULING_MIN: str(least)} if group else {}
    labels = gang | ({TASK: task} if task else {}) | ({DETERMINED_TYPE: kind} if kind else {})
    stated = {} if priority is None else {PRIORITY: str(priority)}
    manifest["metadata"] |= {"labels": labels, "annotations": grouped(pod_group) | stated}
    return await rig.api.create(PODS, manifest)


async def again(rig: Rig, ended: Object, name: str) -> None:
    """What the controller of a workload does: a new pod in place of one that was asked to exit."""
    metadata = ended["metadata"]
    manifest = {**pod(rig.namespace, name), "spec": rig.spec()}
    manifest["spec"] = {**manifest["spec"], "containers": ended["spec"]["containers"]}
    left_out = (RELEASE_REQUESTED, FINISH, "muster.sh/decision")
    annotations = metadata.get("annotations", {})
    manifest["metadata"] |= {
        "labels": {key: one for key, one in metadata["labels"].items() if key != LABEL},
        "annotations": {key: one for key, one in annotations.items() if key not in left_out},
    }
    await rig.api.create(PODS, manifest)


async def finish(rig: Rig, name: str) -> None:
    """Let a pod succeed."""
    patch = {"metadata": {"annotations": {FINISH: "Succeeded"}}}
    (await rig.api.patch(PODS.object_path(name, rig.namespace), patch)).expect(200)


async def muster(rig: Rig, *arguments: str) -> str:
    """What a command says that works through the API."""
    command = ["-m", "daemon", *arguments, "--kubeconfig", str(rig.cluster.admin)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=pipe, stderr=pipe
    )
    said, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return said.decode()


async def until_jobs(daemon: Daemon, are_so: Callable[[list[JobRow]], bool]) -> None:
    """Until the list of jobs, as `muster group list` has it, is so."""
    jobs: list[JobRow] = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                log = await open_log(daemon.log)
                try:
                    [pool], _ = await all_jobs(log)
                finally:
                    await log.close()
                jobs = list(pool.jobs)
                if are_so(jobs):
                    return
                await asyncio.sleep(POLL_SECONDS * 5)
    except TimeoutError:
        raise AssertionError(f"the jobs never became so: {jobs}") from None


def row(job: JobRow) -> tuple[str, str, str, int]:
    """What a user sees of a job first."""
    return job.job.partition("/")[2], job.state, job.code, job.slots_acquired


async def decisions(daemon: Daemon) -> list[tuple[str, list[str]]]:
    """What was decided, in order: `bind`, `backfill`, `release` or `evict`, and the names of the pods."""
    found: list[tuple[str, list[str]]] = []
    for event in await events_of(daemon.log):
        if isinstance(event, GangBindDecided | EvictionDecided):
            word = "backfill" if isinstance(event, BackfillBindDecided) else event.word
            found.append((word, [one.pod.partition("/")[2] for one in event.pods]))
    return found


def on(pods: Pods) -> set[str]:
    """The names of the pods that have a node and have not ended."""
    ended = ("Succeeded", "Failed")
    return {name_of(one) for one in pods if node_of(one) and phase_of(one) not in ended}


def uids(pods: Pods, names: Collection[str] = ()) -> list[str]:
    """The UIDs of pods in the order of their names; of all, or of some."""
    chosen = sorted((one for one in pods if not names or name_of(one) in names), key=name_of)
    return [str(one["metadata"]["uid"]) for one in chosen]


def told(pods: Pods, name: str) -> str:
    """Why a pod does not start, as its condition says."""
    conditions = one_of(pods, name)["status"].get("conditions", [])
    said = [one.get("message", "") for one in conditions if one["type"] == "PodScheduled"]
    return "".join(said)


def one_of(pods: Pods, name: str) -> Object:
    """The pod of a name."""
    return next(one for one in pods if name_of(one) == name)


def name_of(pod: Object) -> str:
    """The name of a pod."""
    return str(pod["metadata"]["name"])
