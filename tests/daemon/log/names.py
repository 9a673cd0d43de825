"""Objects full of texts that no name may be, for every database alike."""

import msgspec

from daemon.fold import refolder
from daemon.log.contract import Log
from daemon.log.verify import verify
from engine.batch import Batch
from events.codec import event_of
from events.daemon import DaemonStarted
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ListCompleted, ListStarted, ObjectSeen, WatchMessage
from events.normalize import JsonObject
from projections.kind_table import REQUIRED
from tests.scheduling.builders import SECOND, node, pod, raw

NUL = "a\x00b"
LONG = "n" * 9_000
ESCAPES = "\x1b]0;title\x07" * 20


def annotated(key: str, text: str) -> JsonObject:
    """Metadata with an annotation."""
    return {"annotations": {key: text}}


def hostile(kind: str, text: str) -> list[bytes]:
    """Objects of a kind that have a text wherever they could name something."""
    number = len(text)
    cards = msgspec.json.encode({text: 1}).decode()
    quota = annotated("volcano.sh/card.quota", cards)
    match kind:
        case "Namespace":
            metadata = annotated("scheduling.volcano.sh/queue-name", text)
            return [raw("Namespace", f"ns-{number}", metadata=metadata)]
        case "Queue":
            amounts: JsonObject = {"capability": {text: 1}, "deserved": {text: 1}, "parent": text}
            status: JsonObject = {"allocated": {text: "1"}, "state": text}
            return [raw("Queue", f"q-{number}", metadata=quota, spec=amounts, status=status)]
        case "PodGroup":
            specs: list[JsonObject] = [
                {"queue": text},
                {"minResources": {text: 1}},
                {"priorityClassName": text},
                {"minTaskMember": {text: 1}},
            ]
            return [
                raw(
                    "PodGroup",
                    f"g-{number}-{index}",
                    metadata=annotated("volcano.sh/card.request", cards),
                    spec={"minMember": 1, **spec},
                    status={"phase": text},
                )
                for index, spec in enumerate(specs)
            ]
        case "Pod":
            keys = (
                "scheduling.k8s.io/group-name",
                "scheduling.volcano.sh/queue-name",
                "volcano.sh/card.name",
                "volcano.sh/task-spec",
            )
            return [
                pod(f"{key.partition('/')[2]}-{number}", metadata=annotated(key, text))
                for key in keys
            ]
        case _:
            return []


async def assert_takes_every_name(log: Log) -> str:
    """A daemon that keeps its views on this log serves the pod of others; the digest of the log's end."""
    head = await log.take_over("test")
    engine = await refolder(log, with_views=True)(head)
    started = DaemonStarted(
        holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
    )
    batches: list[Batch | None] = [engine.start(started, None, head.epoch, 0)]
    texts = (NUL, LONG, ESCAPES)
    for kind in ("Namespace", *REQUIRED):
        shown = [one for text in texts for one in hostile(kind, text)]
        shown += [node("n1", cpu=64)] if kind == "Node" else []
        shown += [pod("canary")] if kind == "Pod" else []
        listed: list[WatchMessage] = [
            ListStarted(kind),
            *map(ObjectSeen, shown),
            ListCompleted(kind, "1", len(shown)),
        ]
        batches.append(engine.observe(listed, 0))
    batches.append(engine.cycle(SECOND))
    for batch in batches:
        if batch is not None:
            await log.append(batch)
    pods = {one.facts.name: one.node for one in engine.state.cluster.pods.values()}
    assert {name for name, at in pods.items() if at} == {"canary"}
    refused: set[str] = set()
    faulted: set[str] = set()
    async for entries in log.read():
        for entry in entries:
            match event_of(entry.record):
                case PodGroupUnschedulable(pod=key):
                    refused.add(key.partition("/")[2])
                case ConfigInvalid(subject=subject):
                    faulted.add(subject)
                case _:
                    pass
    assert refused >= pods.keys() - {"canary"}
    for text in texts:
        assert {f"Namespace//ns-{len(text)}", f"Queue//q-{len(text)}"} <= faulted
    return (await verify(log)).head.digest
