"""How the logs in `attacked/` were made: `python -m tests.histories.write_attacked FOLDER`, at release 0.1.

Each log is that of a daemon that has two nodes, a queue and a pod it has bound, and then observes objects
made to stop it. `names`, `sla_short` and `pattern_short` are what release 0.1 itself made durable: it survived
these objects, or stalled for seconds only. The others stopped it before it could write the record, depending
on the limits of the Python that it ran on; their last records are written here as it would have written them.
The files stay as they are; this is kept to show where they came from.
"""

import asyncio
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from daemon.log.copying import export
from daemon.log.memory import MemoryLog
from engine.batch import Batch
from events.chain import Draft, seal
from events.cluster import ObjectObserved
from events.messages import ObjectSeen
from events.normalize import JsonObject, normalize
from events.record import Head, Record, StoredObject
from tests.scheduling.builders import EngineHarness, node, pod, raw

DIGITS = "9" * 5_000
BRACKETS = "[" * 100_000
NESTED = 3_000
LONG = "n" * 9_000
NUL = "a\x00b"


def nested(depth: int) -> bytes:
    """A PodGroup with an unknown field so deep, as no encoder would write it."""
    group = raw("PodGroup", "attack", spec={"minMember": 1, "more": 0})
    return group.replace(b'"more":0', b'"more":' + b'{"a":' * depth + b"1" + b"}" * depth)


def group(annotations: JsonObject, spec: "JsonObject | None" = None) -> bytes:
    """A PodGroup with these annotations of `volcano.sh`."""
    metadata = {"annotations": annotations}
    return raw("PodGroup", "attack", metadata=metadata, spec=spec or {"minMember": 1})


def hyper_node(pattern: str) -> bytes:
    """A HyperNode that finds nodes by a pattern."""
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
    return raw("HyperNode", "attack", spec={"tier": 1, "members": [member]})


def named(key: str, name: str, text: str) -> bytes:
    """A pod that an annotation puts somewhere."""
    return pod(name, metadata={"annotations": {key: text}})


FORGED: dict[str, list[bytes]] = {
    "group_of_5000_digits": [group({}, {"minMember": 1, "minResources": {"cpu": DIGITS}})],
    "queue_of_5000_digits": [raw("Queue", "attack", spec={"capability": {"cpu": DIGITS}})],
    "brackets_in_request": [group({"volcano.sh/card.request": BRACKETS})],
    "brackets_in_quota": [
        raw("Queue", "attack", metadata={"annotations": {"volcano.sh/card.quota": BRACKETS}})
    ],
    "sla_of_250000_digits": [group({"volcano.sh/sla-waiting-time": "1" * 250_000 + "x"})],
    "pattern_that_backtracks": [hyper_node("^(a+)+$"), node("a" * 50 + "b")],
}
DURABLE: dict[str, list[bytes]] = {
    "names": [
        named(key, f"{key.rpartition('/')[2]}-{index}", text)
        for key in ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/queue-name")
        for index, text in enumerate((NUL, LONG))
    ],
    "sla_short": [group({"volcano.sh/sla-waiting-time": "1" * 2_000 + "x"})],
    "pattern_short": [node("a" * 20 + "b"), hyper_node("^(a+)+$")],
}


def begun() -> EngineHarness:
    """A daemon that has bound a pod."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"), node("n2"))
    harness.show_all("Queue", raw("Queue", "default", spec={}))
    harness.show_all("Pod", pod("before"))
    harness.show_the_rest()
    harness.show_all("HyperNode")
    harness.cycle()
    return harness


def forged(before: Head, objects: list[tuple[str, str, str, StoredObject]]) -> Batch:
    """A batch of observations that nothing was folded from: kind, subject, UID and content of each."""
    records: list[Record] = []
    head = before
    for _, subject, uid, stored in objects:
        event = ObjectObserved(uid=uid, resource_version="9")
        position, batch = head.position + 1, before.position + 1
        draft = Draft(position, batch, head.epoch, 0, None, None, event.kind, subject, msgspec.json.encode(event, order="deterministic"), stored.digest)  # fmt: skip
        records.append(seal(head.digest, draft))
        head = Head(position, records[-1].digest, head.epoch)
    return Batch(before=before, records=records, objects=[one[3] for one in objects])


def deep(raw_object: bytes) -> tuple[str, str, str, StoredObject]:
    """A PodGroup that this Python may not be able to decode, as it enters the log."""
    content = raw_object.replace(b'"resourceVersion":"7",', b"")
    stored = StoredObject(digest=sha256(content).hexdigest(), content=content)
    return "PodGroup", "PodGroup/default/attack", "uid-attack", stored


def entered(raw_object: bytes) -> tuple[str, str, str, StoredObject]:
    """An object as it enters the log."""
    found = normalize(raw_object)
    return found.kind, found.subject, found.uid, found.stored


async def write(path: Path, attack: Callable[[EngineHarness], None]) -> None:
    """One log: what came before the attack, and what was durable of it."""
    harness, log = begun(), MemoryLog()
    attack(harness)
    await log.take_over("history")
    for batch in harness.batches:
        assert batch.before == log.head
        await log.append(batch)
    await export(log, path, notes={"release": "0.1", "attack": path.stem})


def forging(objects: list[tuple[str, str, str, StoredObject]]) -> Callable[[EngineHarness], None]:
    """The attack as a record that was never folded."""
    return lambda harness: harness.batches.append(forged(harness.engine.head, objects))


def showing(objects: list[bytes]) -> Callable[[EngineHarness], None]:
    """The attack as the release met it."""

    def show(harness: EngineHarness) -> None:
        harness.see(*map(ObjectSeen, objects))
        harness.cycle()

    return show


async def main(folder: Path) -> None:
    """All of them."""
    for name, objects in FORGED.items():
        await write(folder / f"{name}.muster", forging([entered(one) for one in objects]))
    await write(folder / "nested_3000_deep.muster", forging([deep(nested(NESTED))]))
    for name, objects in DURABLE.items():
        await write(folder / f"{name}.muster", showing(objects))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
