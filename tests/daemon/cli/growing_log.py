"""A day in the life of a gang, and a log that grows while a command follows it."""

import json
import sys
from asyncio import create_subprocess_exec, timeout
from asyncio.subprocess import PIPE
from pathlib import Path
from signal import SIGINT, default_int_handler, signal

from daemon.log.contents import Packer
from daemon.log.opening import open_log
from events.record import StoredObject
from tests.checkout import ROOT
from tests.daemon.cli.builders import muster, scenario

DAY = """\
cluster:
  - {kind: Node, metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H200}}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}, count: 2}
  - {kind: Queue, metadata: {name: q1, annotations: {volcano.sh/card.quota: '{"H200": 8}'}}, spec: {capability: {cpu: 64, memory: 64Gi}}}
steps:
  - at: 10s
    apply:
      - {kind: PodGroup, metadata: {name: train, namespace: ml}, spec: {minMember: 2, queue: q1}}
      - {kind: Pod, metadata: {name: "a{i}", namespace: ml, annotations: {scheduling.k8s.io/group-name: train, muster.sh/run-seconds: "60", volcano.sh/card.name: H200}}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 4}}}]}, count: 2}
      - {kind: Pod, metadata: {name: other, namespace: web}, spec: {nodeSelector: {kubernetes.io/hostname: n2}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
  - {at: 20s, patch: [{kind: Queue, name: q1, merge: {metadata: {annotations: {volcano.sh/card.quota: '{"H200": 4}'}}, spec: {capability: {cpu: 32}}}}]}
  - {at: 30s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}
  - {at: 40s, patch: [{kind: Node, name: n1, merge: {status: {allocatable: {nvidia.com/gpu: 7}}}}]}
until: 120s
"""


def day_log(folder: Path) -> Path:
    """A gang of two pods with four cards each runs on n1 from 10 s to 70 s; meanwhile its queue is cut, n1 is cordoned and loses a card."""
    path = folder / "day.db"
    result = muster("simulate", scenario(folder, DAY), "--log", path)
    assert result.exit_code == 0, result.output
    return path


def first_half(log: Path, target: str | Path, folder: Path) -> None:
    """Write the first 36 records of the log into another one."""
    bundle = folder / "early.muster"
    assert muster("log", "export", log, "--file", bundle, "--to", "36").exit_code == 0
    assert muster("log", "import", bundle, "--log", target).exit_code == 0


async def followed(
    log: Path, growing: str | Path, words: tuple[str, ...], before: int, after: int
) -> tuple[list[int], list[int], tuple[int | None, str]]:
    """Follow a log: return the positions that are printed at first, those once the rest was appended, and how Ctrl-C ends the command."""
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "daemon", *words, "-f", "-o", "json"),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
        # A shell lets what it runs in the background ignore Ctrl-C.
        preexec_fn=lambda: signal(SIGINT, default_int_handler),
    )
    assert process.stdout is not None
    try:
        async with timeout(60):
            first = [json.loads(await process.stdout.readline())["position"] for _ in range(before)]
            await append_rest(log, growing)
            rest = [json.loads(await process.stdout.readline())["position"] for _ in range(after)]
            process.send_signal(SIGINT)
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return first, rest, (process.returncode, said.decode().strip())


async def append_rest(whole: Path, part: str | Path) -> None:
    """Append to a log what another one holds behind its end."""
    source, target = await open_log(str(whole)), await open_log(str(part), "write")
    try:
        async for entries in source.read(target.head.position):
            objects = [
                StoredObject(digest=one.record.object, content=one.content)
                for one in entries
                if one.record.object is not None and one.content is not None
            ]
            await target.append_stored([one.record for one in entries], Packer().rows(objects))
    finally:
        await source.close()
        await target.close()
