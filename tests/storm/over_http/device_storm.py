"""One run of pods with devices, by a seed: writes that are lost, repeated or late, device plugins that are late, pods
that take minutes to stop, daemons that are killed between the annotations of a pod and its binding, and two daemons
at once.

The judge looks at the objects of the API server only, after each change: which chips, AI cores and GPUs the pods on a
node have.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.server.simulated_api_server import Server, running_server
from daemon.log.memory import Memory
from daemon.log.verify import verify
from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.errors import FencedError
from events.normalize import Json, JsonObject
from simulator.api_server.faults import Fault, FaultContext, FaultKind, SeededFaults
from simulator.manifest import Manifest
from simulator.manifest_fields import is_terminal, name_of, node_of, section, text_at, uid_of
from simulator.object_store import Change
from simulator.scenario import Scenario, parse_scenario
from tests.storm.daemon_process import chance
from tests.storm.judge import check_outcomes, decided_in, entries_of, replayed
from tests.storm.over_http.hurry import LoopClock
from tests.storm.over_http.in_process_daemon import InProcessDaemon
from tests.storm.over_http.tempest import until
from tests.storm.over_http.witness import Witness, known

SECONDS: Final = 60
"""In which pods come and device plugins change."""
QUIET_SECONDS: Final = 3600.0
PODS: Final = 36
WRITES_PER_THOUSAND: Final = 400
READS_PER_THOUSAND: Final = 40
"""Requests that get a fault: those that change something, and others."""
LATE_HUNDREDTHS: Final = 3000
"""The longest time by which a request arrives late."""
KILLED_AT_ANNOTATIONS: Final = 0.25
"""Of the patches with annotations, how many are followed by the end of the daemon."""

CHIPS: Final = "huawei.com/Ascend910"
CORES: Final = "huawei.com/npu-core"
REAL: Final = "huawei.com/AscendReal"
MILLI: Final = "alibabacloud.com/gpu-milli"
DECISION: Final = "muster.sh/decision"
CORES_PER_CHIP: Final = 8
GPU_MILLI: Final = 1000
_PART: Final = re.compile(r"Ascend310P-(\d+)c[^-]*-\d+-(\d+)_\d+|(\d+)-vir0*(\d+).*")

POLICY: Final[JsonObject] = {
    "actions": "enqueue, allocate, preempt, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ],
}
LOST: Final = (FaultKind.LOSE, FaultKind.FAIL_AFTER, FaultKind.EMPTY, FaultKind.CUT)
"""A request is carried out, and its answer does not say so."""
WRITES: Final = (
    *(*LOST, *LOST, FaultKind.DELAY, FaultKind.DELAY, FaultKind.TWICE, FaultKind.DROP),
    *(FaultKind.CONFLICT, FaultKind.FAIL, FaultKind.THROTTLE),
)
REFUSED: Final = (FaultKind.FORBID,) * 6
"""More faults of bindings: the pod is decided again, with other devices."""
LATE: Final = (FaultKind.DELAY,) * 6
"""More faults of patches."""

Devices = dict[tuple[int, str], tuple[str, ...]]
"""Position of a decision and UID to the devices that it gave to the pod."""


class WriteFaults(SeededFaults):
    """Many of the requests that write get a fault, some of the others."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, READS_PER_THOUSAND, (FaultKind.DROP, FaultKind.CUT, FaultKind.LOSE))
        self.struck: Counter[str] = Counter()
        self._seed_of_writes = seed

    def pick(self, ask: FaultContext) -> Fault | None:
        """Return the fault of a request, or None."""
        if ask.verb in ("get", "list", "watch"):
            return super().pick(ask)
        point = chance(self._seed_of_writes, "write", ask.index) * 1000
        if (
            not self.is_on
            or point >= WRITES_PER_THOUSAND
            or ask.plural not in ("pods", "podgroups")
        ):
            return None
        kinds = (*WRITES, *(REFUSED if ask.part == "binding" else LATE))
        kind = kinds[int(point) % len(kinds)]
        self.struck[kind.value] += 1
        late = chance(self._seed_of_writes, "late", ask.index) ** 2
        amount = int(LATE_HUNDREDTHS * late) if kind is FaultKind.DELAY else 1
        return Fault(kind, amount)


class Outcome(Struct, frozen=True, kw_only=True):
    """What happened in a run in which no device was given twice."""

    seed: int
    bound: int
    killed: int
    killed_at_annotations: int
    two_at_once: int
    struck: dict[str, int]
    kinds: dict[str, int]
    """How many pods got devices, by the way that these are named."""
    records: int


class Holders:
    """The devices that pods have, as the API server has it. `doubled` tells what was given twice."""

    def __init__(self) -> None:
        self.doubled: list[str] = []
        self.annotated = asyncio.Event()
        """Set when a pod without a node gets annotations for its device plugin."""
        self.kinds: Counter[str] = Counter()
        self.changes: list[tuple[str, str, int, int]] = []
        """UID, node, decision and thousandths of a GPU of each pod that gets a share (0: gives it back), in order."""
        self.named: list[tuple[int, str, dict[str, int]]] = []
        """Decision, UID and devices of each pod that has a node, while its device plugin has not confirmed them."""
        self._chips: dict[str, tuple[str, dict[str, int]]] = {}
        """UID to node and AI cores of each chip, or CORES_PER_CHIP for a whole one."""

    def on_change(self, change: Change) -> None:
        """Take in what a pod has now."""
        if change.key[0] != "Pod":
            return
        for one in filter(None, (change.before, change.after)):
            self._release(uid_of(one))
        pod = change.after
        if pod is None or is_terminal(pod):
            return
        if not node_of(pod):
            before = section(
                {} if change.before is None else change.before, "metadata", "annotations"
            )
            if "predicate-time" in section(pod, "metadata", "annotations").keys() - before.keys():
                self.annotated.set()
            return
        if change.before is not None and node_of(change.before):
            before = section(change.before, "metadata", "annotations")
            after = section(pod, "metadata", "annotations")
            if any(before.get(key) != after.get(key) for key in (CHIPS, CORES, MILLI)):
                text = f"{name_of(pod)} had {before} when it was bound, and now {after}"
                self.doubled.append(text)
        self._hold(pod)

    def _release(self, uid: str) -> None:
        if self._chips.pop(uid, None) is None and self.changes:
            self.changes.append((uid, "", 0, 0))

    def _hold(self, pod: Manifest) -> None:
        node, annotations = node_of(pod), section(pod, "metadata", "annotations")
        if MILLI in annotations:
            decision = int(text_at(annotations, DECISION))
            milli = int(text_at(annotations, MILLI))
            self.changes.append((uid_of(pod), node, decision, milli))
            self.kinds[MILLI] += 1
            return
        key = next((one for one in (REAL, CHIPS, CORES) if one in annotations), "")
        asked = section(_container(pod), "resources", "requests")
        parts = _parts(text_at(annotations, key))
        has = len(parts) if CHIPS in asked else sum(parts.values())
        if has != int(str(asked.get(CHIPS) or asked.get(CORES))):
            self.doubled.append(f"{name_of(pod)} on {node} has {parts} and asks for {asked}")
        self.kinds[key] += 1
        if key != REAL:
            self.named.append((int(text_at(annotations, DECISION)), uid_of(pod), parts))
        self._chips[uid_of(pod)] = (node, parts)
        for chip in parts:
            used = [
                there[chip] for on, there in self._chips.values() if on == node and chip in there
            ]
            if sum(used) > CORES_PER_CHIP:
                text = {uid: there for uid, (on, there) in self._chips.items() if on == node}
                self.doubled.append(f"chip {chip} of {node}: {text}")

    def misnamed(self, devices: Devices) -> list[str]:
        """Return pods with annotations of other devices than those of the decision by which they were bound."""
        return [
            f"{uid}: bound by {decision} with {parts}, decided: {devices[decision, uid]}"
            for decision, uid, parts in self.named
            if parts != _parts(",".join(_in_annotations(one) for one in devices[decision, uid]))
        ]

    def doubled_shares(self, devices: Devices) -> list[str]:
        """Return the GPUs of which more than all was given, with the GPUs that decisions gave to pods."""
        held: dict[str, tuple[str, int]] = {}
        found: list[str] = []
        for uid, node, decision, milli in self.changes:
            held.pop(uid, None)
            if not node:
                continue
            (gpu,) = devices[decision, uid]
            held[uid] = (f"{node}/{gpu}", milli)
            used = sum(other for place, other in held.values() if place == f"{node}/{gpu}")
            if used > GPU_MILLI:
                found.append(f"{node}/{gpu}: {used} thousandths: {held}")
        return found


def _container(pod: Manifest) -> Manifest:
    containers = section(pod, "spec")["containers"]
    assert isinstance(containers, list)
    assert isinstance(containers[0], dict)
    return containers[0]


def _parts(text: str) -> dict[str, int]:
    """Return AI cores by the number of the chip: of `Ascend910-0,Ascend910-1`, `0,1`, `0-vir04` or what a plugin made."""
    parts: dict[str, int] = {}
    for one in filter(None, text.split(",")):
        if found := _PART.fullmatch(one):
            cores, chip, given, of = found.groups()
            parts[chip or given] = int(cores or of)
        else:
            parts[one.rpartition("-")[2]] = CORES_PER_CHIP
    return parts


def _in_annotations(device: str) -> str:
    """Return the name of a device or a part of one (`Ascend310P-0:vir04`) as annotations have it (`0-vir04`)."""
    return device.rpartition("-")[2].replace(":", "-") if ":" in device else device


class DeviceStorm:
    """A server, daemons that come and go, and the judge."""

    def __init__(
        self,
        seed: int,
        server: Server,
        scenario: Scenario,
        folder: Path,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.seed = seed
        self._tasks = tasks
        self.holders = Holders()
        self.killed = self.killed_at_annotations = self.two_at_once = 0
        self._server = server
        self._scenario = scenario
        self.witness = Witness(server.api)
        self._memory = Memory()
        self._kubeconfig = server.kubeconfig(folder / "kubeconfig")
        self._numbers = count()
        server.api.simulated.store.listen(self.holders.on_change)

    def jitter(self) -> float:
        """The same in every run with the same seed, in the order in which it is asked for."""
        return chance(self.seed, "jitter", next(self._numbers))

    def _started(self) -> tuple[InProcessDaemon, asyncio.Task[None]]:
        daemon = InProcessDaemon(
            *(self._scenario, self._kubeconfig, self._memory, self.jitter), updates_status=False
        )
        return daemon, self._tasks.create_task(_until_fenced(daemon), name="daemon")

    async def rage(self) -> None:
        """Run daemons one after the other, now and then two at once, until no more pods come."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        _, running = self._started()
        while loop.time() < end:
            self.holders.annotated.clear()
            try:
                async with asyncio.timeout(1 + 20 * self.jitter()):
                    await self.holders.annotated.wait()
                if self.jitter() >= KILLED_AT_ANNOTATIONS:
                    continue
                is_at_annotations = True
            except TimeoutError:
                is_at_annotations = False
            if self.jitter() < 1 / 3:
                # The old daemon goes on until the log refuses its records.
                self.two_at_once += 1
                before = running
                _, running = self._started()
                await asyncio.sleep(10 * self.jitter())
            else:
                before = running
                self.killed += 1
                self.killed_at_annotations += is_at_annotations
            await _end(before)
            if running is before:
                await asyncio.sleep(5 * self.jitter())
                _, running = self._started()
        await _end(running)

    async def judged(self) -> int:
        """Wait until all is done without faults; return the number of records if the log is whole and replays equal."""
        daemon, running = self._started()

        def is_in_order() -> bool:
            is_settled = self._server.api.simulated.settled
            return daemon.is_idle and is_settled and known(daemon.state) == self.witness.there()

        await until(is_in_order, QUIET_SECONDS, lambda: f"{self.witness.there()}")
        held = {uid: pod.devices for uid, pod in daemon.state.cluster.pods.items() if pod.occupies}
        assert daemon.state.cluster.device_holders.errors == {}
        assert all(held.values()), held
        await _end(running)
        await verify(daemon.log)
        entries = await entries_of(daemon.log)
        replayed(entries)
        check_outcomes(entries, decided_in(entries))
        assert not self.witness.doubled, self.witness.doubled
        devices = {
            (one.record.position, pod.uid): tuple(pod.devices)
            for one in entries
            if isinstance(event := event_of(one.record), GangBindDecided)
            for pod in event.placements
        }
        holders = self.holders
        doubled = [*holders.doubled, *holders.doubled_shares(devices), *holders.misnamed(devices)]
        assert not doubled, doubled[:3]
        return len(entries)


async def _until_fenced(daemon: InProcessDaemon) -> None:
    try:
        await daemon.run()
    except* FencedError:
        pass


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.wait([running])


def scenario_of(seed: int) -> Scenario:
    """Return four nodes with devices of each kind, and the pods and device plugins of a seed."""
    document = {
        "scenario": "devices in a storm",
        "start_delay": "50ms",
        "policy": POLICY,
        "cluster": [*_nodes(), _priority_class()],
        "steps": sorted((*_plugin_steps(seed), *_pod_steps(seed)), key=_milliseconds_of),
    }
    return parse_scenario(msgspec.json.encode(document).decode(), "storm")


def _milliseconds_of(step: JsonObject) -> int:
    return int(str(step["at"]).removesuffix("ms"))


def _priority_class() -> JsonObject:
    kind: JsonObject = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    return {**kind, "metadata": {"name": "high"}}


def _nodes() -> Iterator[JsonObject]:
    chips: JsonObject = {f"Ascend910-{number}": {} for number in range(8)}
    for name, kind in (("rings", "module"), ("flat", "module-910b-8")):
        labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": kind}
        yield _node(name, labels, CHIPS, 8, chips)
    cut: JsonObject = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8"}
    yield _node("cores", cut, CORES, 2 * CORES_PER_CHIP, {"Ascend310P-0": {}, "Ascend310P-1": {}})
    shared: JsonObject = {
        "nvidia.com/gpu.product": "T4",
        "nvidia.com/gpu.memory": "15109",
        "muster.sh/gpu-sharing": "true",
    }
    yield _node("gpus", shared, "nvidia.com/gpu", 2, {})


def _node(
    name: str, labels: JsonObject, resource: str, amount: int, base: JsonObject
) -> JsonObject:
    amounts: JsonObject = {"cpu": "64", "memory": "64Gi", "pods": "110", resource: str(amount)}
    notes: JsonObject = {"baseDeviceInfos": msgspec.json.encode(base).decode()} if base else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _plugin_steps(seed: int) -> Iterator[JsonObject]:
    """Device plugins confirm at once, late or never, and report as free what is not."""
    for node in ("rings", "flat", "cores"):
        at = 0
        for turn in range(6):
            which = (seed, node, turn)
            confirm = ("0s", "0s", "1s", "1s", "12s", "75s", "never")[
                int(7 * chance(*which, "confirm"))
            ]
            one: JsonObject = {"node": node, "confirm": confirm}
            if node != "cores" and turn:
                everything: Json = [f"Ascend910-{number}" for number in range(8)]
                broken = f"Ascend910-{int(8 * chance(*which, 'broken'))}"
                unhealthy: Json = [broken] if chance(*which, "breaks") < 0.3 else []
                report: JsonObject = {"unhealthy": unhealthy, "network_unhealthy": []}
                one["report"] = {**report, "available": everything} if turn % 2 else report
            yield {"at": f"{at}ms", "devices": [one]}
            at += int(30_000 * chance(*which, "at"))


def _pod_steps(seed: int) -> Iterator[JsonObject]:
    at = 0
    for index in range(PODS):
        at += int(SECONDS * 1000 / PODS * 2 * chance(seed, index, "at"))
        size = 2 if chance(seed, index, "gang") < 0.2 else 1
        names = [f"p{index}-{one}" for one in range(size)]
        group: JsonObject = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": f"p{index}"},
            "spec": {"minMember": size},
        }
        pods: Json = [group, *(_pod(seed, index, name) for name in names)]
        yield {"at": f"{at}ms", "apply": pods}
        later = at + 1000 + int(40_000 * chance(seed, index, "end"))
        yield {"at": f"{later}ms", "delete": [{"kind": "Pod", "name": name} for name in names]}


def _pod(seed: int, index: int, name: str) -> JsonObject:
    point = chance(seed, index, "size")
    annotations: JsonObject = {
        "scheduling.k8s.io/group-name": f"p{index}",
        "muster.sh/stop-seconds": ("0", "5", "150")[int(3 * chance(seed, index, "stop"))],
    }
    if chance(seed, index, "ends") < 0.5:
        annotations["muster.sh/run-seconds"] = str(1 + int(40 * chance(seed, index, "run")))
    requests: JsonObject = {"cpu": "1"}
    spec: JsonObject = {"schedulerName": "muster"}
    match int(4 * chance(seed, index, "kind")):
        case 0:
            requests[CHIPS] = str((1, 1, 2, 2, 4, 8)[int(6 * point)])
            spec["nodeSelector"] = {"accelerator-type": "module"}
        case 1:
            requests[CHIPS] = str(1 + int(5 * point))
            spec["nodeSelector"] = {"accelerator-type": "module-910b-8"}
        case 2:
            requests[CORES] = str((1, 2, 2, 4, 8)[int(5 * point)])
        case _:
            annotations[MILLI] = str(100 + int(9 * point) * 100)
    if chance(seed, index, "high") < 0.3:
        spec["priorityClassName"] = "high"
    spec["containers"] = [{"name": "main", "image": "image", "resources": {"requests": requests}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


async def run(seed: int, folder: Path) -> Outcome:
    """One run. An error has a note with the seed."""
    faults = WriteFaults(seed)
    scenario = scenario_of(seed)
    try:
        async with (
            running_server(scenario, faults=faults, clock=LoopClock()) as server,
            asyncio.TaskGroup() as tasks,
        ):
            storm = DeviceStorm(seed, server, scenario, folder, tasks)
            await storm.rage()
            faults.is_on = False
            records = await storm.judged()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return Outcome(
        seed=seed,
        bound=len(storm.witness.bound),
        killed=storm.killed,
        killed_at_annotations=storm.killed_at_annotations,
        two_at_once=storm.two_at_once,
        struck=dict(sorted(faults.struck.items())),
        kinds=dict(sorted(storm.holders.kinds.items())),
        records=records,
    )
