"""Apply observed objects and deletions to the cluster."""

from collections.abc import Callable

from msgspec import Struct

from projections.cluster import Cluster
from projections.internal_error import OnError
from projections.kind_table import kinds_with
from projections.kinds.workload import apply_workload, drop_owner
from projections.observed_kind import INVALID, Reading
from projections.unsettled import ObservedObject


def apply_object(cluster: Cluster, kind: str, one: ObservedObject, on_error: OnError) -> None:
    """Apply an object, not a pod, as it was last observed. A kind that is not in the table is an owner of pods."""
    if one.content is None:
        _apply_deletion(cluster, kind, one)
        return
    record = one.record
    reading = Reading(record.subject, record.object or "", one.uid, one.content, on_error)
    apply_reading(cluster, kind, reading)


def apply_reading(cluster: Cluster, kind: str, reading: Reading) -> None:
    """Apply an object that is being read."""
    observed, name = (
        kinds_with(cluster.features.table).get(kind),
        reading.subject.partition("/")[2],
    )
    before = None
    if observed is None or not observed.has_own_table:
        before = cluster.others.get(kind, {}).get(name)
        if reading.uid:
            cluster.others.setdefault(kind, {})[name] = (reading.uid, reading.digest)
        else:
            cluster.others.get(kind, {}).pop(name, None)
    if observed is not None and observed.facts_of is not None:
        _apply_facts(cluster, kind, reading, observed.facts_of)
    apply = apply_workload if observed is None else observed.apply
    apply(cluster, reading)
    if reading.counts:
        cluster.last_read.pop(reading.subject, None)
    elif before is not None:
        cluster.last_read.setdefault(reading.subject, before[1])


def _apply_deletion(cluster: Cluster, kind: str, one: ObservedObject) -> None:
    observed, subject = kinds_with(cluster.features.table).get(kind), one.record.subject
    name, before = subject.partition("/")[2], None
    if observed is None or not observed.has_own_table:
        before = cluster.others.get(kind, {}).pop(name, None)
        cluster.config_errors.put(subject, ())
    drop = drop_owner if observed is None else observed.drop
    drop(cluster, subject, one.uid)
    if observed is not None and observed.facts_of is not None:
        cluster.object_facts.get(kind, {}).pop(name, None)
    if name not in cluster.object_facts.get(kind, {}):
        cluster.last_read.pop(subject, None)
    elif before is not None:
        cluster.last_read.setdefault(subject, before[1])


def _apply_facts(
    cluster: Cluster, kind: str, reading: Reading, facts_of: Callable[[bytes], Struct | str]
) -> None:
    facts = reading.of(facts_of, lambda problem, _: problem)
    name, of_kind = reading.subject.partition("/")[2], cluster.object_facts.setdefault(kind, {})
    if isinstance(facts, str):
        of_kind.pop(name, None)
        cluster.config_errors.put(reading.subject, reading.faults or ((INVALID, facts),))
    else:
        of_kind[name] = facts
        cluster.config_errors.put(reading.subject, reading.faults)
