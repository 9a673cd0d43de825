"""Queue (scheduling.volcano.sh): a share of the cluster, with its quota."""

from typing import Final

from msgspec import structs

from events.amount_text import amounts_text
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.objects import Metadata, QueueObject, read
from projections.observed_kind import ObservedKind, Reading
from projections.queue_objects import put_queue
from projections.queue_tree import GUARANTEE_ERROR
from projections.queues import QueueFacts, queue_facts

QUEUES: Final = Resource(
    "Queue",
    "queues",
    "scheduling.volcano.sh",
    "v1beta1",
    is_namespaced=False,
    short_names=("q",),
    is_custom=True,
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    queue = cluster.queues.get(reading.subject.rpartition("/")[2])
    if queue is not None and queue.digest == reading.digest:
        return
    facts, problem = read_queue(reading)
    cluster.config_errors.put(reading.subject, reading.faults, keeps=(GUARANTEE_ERROR,))
    put_queue(cluster, facts, facts.name, reading.digest, problem)


def read_queue(reading: Reading) -> tuple[QueueFacts, str]:
    """Return the facts of a queue, and why it cannot be read."""

    def bare(problem: str, metadata: Metadata) -> tuple[QueueFacts, str]:
        return queue_facts(QueueObject(metadata=metadata)), problem

    def whole(content: bytes) -> tuple[QueueFacts, str]:
        obj = read(QueueObject, content)
        return bare(obj, reading.metadata()) if isinstance(obj, str) else (queue_facts(obj), "")

    facts, problem = reading.of(whole, bare)
    if reading.is_failed:
        # Its limits are not known: admit nothing more.
        facts = structs.replace(facts, is_open=False, state="Unknown")
    return facts, problem


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    queue = cluster.queues.get(name)
    if queue is not None and queue.facts is not None and queue.facts.uid == uid:
        put_queue(cluster, None, name, "")
        cluster.config_errors.put(subject, ())


def _summarize(content: bytes) -> list[str]:
    obj = read(QueueObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = queue_facts(obj)
    allows = amounts_text({**facts.quota, **facts.capability})
    return [
        "open" if facts.is_open else "not open",
        f"allows {allows}" if allows else "",
        *(message for _, message in facts.faults),
    ]


QUEUE: Final = ObservedKind(
    resource=QUEUES,
    why="quotas",
    is_required=True,
    has_own_table=True,
    apply=_apply,
    drop=_drop,
    summarize=_summarize,
)
