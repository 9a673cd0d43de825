"""Batches for logs: pods seen, with made-up objects, chained as the loop would chain them."""

from collections.abc import Iterable

from engine.batch import Batch
from events.chain import Draft, seal
from events.cluster import ObjectObserved
from events.codec import encode
from events.normalize import Normalized, normalize_manifest
from events.record import Head, Record, StoredObject
from projections.views.rows import RowChanges, ViewChanges

RECORDED_AT_NS = 1_700_000_000_000_000_000


def pod(index: int, *, phase: str = "Pending") -> Normalized:
    """A pod as it enters the log."""
    labels = {"app": "train", "job": f"job-{index // 8}"}
    return normalize_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"train-{index}",
                "namespace": "default",
                "uid": f"uid-{index}",
                "resourceVersion": str(1000 + index),
                "labels": {**labels},
            },
            "spec": {"schedulerName": "muster"},
            "status": {"phase": phase},
        }
    )


def batch(before: Head, pods: Iterable[Normalized], views: ViewChanges | None = None) -> Batch:
    """One batch of observations that follows `before`."""
    records: list[Record] = []
    objects: list[StoredObject] = []
    digest = before.digest
    for offset, seen in enumerate(pods):
        event = ObjectObserved(uid=seen.uid, resource_version=seen.resource_version)
        draft = Draft(
            position=before.position + 1 + offset,
            batch=before.position + 1,
            epoch=before.epoch,
            recorded_at_ns=RECORDED_AT_NS + offset,
            cycle=None,
            cause=None,
            kind=ObjectObserved.kind,
            subject=seen.subject,
            body=encode(event),
            object=seen.stored.digest,
        )
        records.append(seal(digest, draft))
        digest = records[-1].digest
        objects.append(seen.stored)
    return Batch(before=before, records=records, objects=objects, views=views or {})


def batches(before: Head, *, count: int, size: int = 2) -> list[Batch]:
    """Several batches after one another."""
    made: list[Batch] = []
    for index in range(count):
        made.append(batch(before, [pod(size * index + n) for n in range(size)]))
        before = made[-1].after
    return made


def card_views(node: str, free: int, *, at: int, since: int | None = None) -> ViewChanges:
    """A node's row of `node_card` takes the place of the one that began at `since`."""
    row = (node, "A100", "nvidia.com/gpu", 8, 8, 8 - free, free)
    return {
        "node_card": RowChanges(
            closed=[] if since is None else [(at, node, "A100", since)],
            opened=[(*row, at)],
            checksum=at,
        )
    }
