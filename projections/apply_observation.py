"""Apply observed objects and deletions to the cluster."""

from collections.abc import Callable

from msgspec import Struct, msgpack

from events.cluster import ObjectDeleted
from events.record import PodParts, Record
from projections.cluster import Cluster
from projections.fixed_requests import FIXED, Fixed, fixed_request, with_request
from projections.kind_table import kinds_with
from projections.kinds.workload import apply_workload, drop_owner
from projections.objects import Metadata, PodObject, readable_pod
from projections.observed_kind import INVALID, Reading
from projections.pod_class import NO_INDEX, PodClass, parse_class
from projections.pod_devices import ERRORS as ASSIGNMENT_ERRORS
from projections.pod_reading import read_facts
from projections.pods import Pod, PodFacts, Stated, pod_facts
from projections.pool_options import job_options


def read_pod(
    cluster: Cluster, reading: Reading, old: Pod | None = None, parts: PodParts | None = None
) -> Pod:
    """Return the observed pod. A pod that cannot be read is kept, with the reason. `old` is its last version; `parts` are
    those of its content, where they are known."""
    classes = cluster.inter_pod_affinity.classes
    fixed: Fixed | None = None
    stated: Stated | None = None

    def bare(problem: str, metadata: Metadata) -> tuple[PodFacts, PodClass]:
        plain = PodObject(metadata=metadata)
        return pod_facts(plain)[0], classes.of(("unreadable", problem), lambda: plain, problem)

    def whole(content: bytes) -> tuple[PodFacts, PodClass]:
        found = read_facts(content, parts)
        if isinstance(found, str):
            return bare(found, reading.metadata())
        facts, key = found
        nonlocal fixed, stated
        if old is not None or facts.node:
            fixed = fixed_request(classes, old, facts, key)
        if facts.problem:
            key = (*key, "problem", facts.problem)
        if fixed is None:
            return facts, classes.of(key, lambda: readable_pod(content), facts.problem)
        if fixed.changed and not fixed.facts.node:
            pod_class = parse_class(NO_INDEX, readable_pod(content), facts.problem)
            stated = Stated(facts, msgpack.encode(key), pod_class)
        request, problem = fixed.request, fixed.facts.problem
        return fixed.facts, classes.of(
            fixed.key, lambda: with_request(readable_pod(content), request), problem
        )

    facts, pod_class = reading.of(whole, bare)
    faults = reading.faults
    if fixed is not None and fixed.changed:
        faults = (*faults, (FIXED, fixed.message))
    if facts.pool_options and facts.scheduler in cluster.scheduler_names:
        faults = (*faults, *job_options((), (facts.pool_options,)).problems)
    errors = cluster.config_errors
    if faults or reading.subject in errors.current:
        errors.put(reading.subject, faults, keeps=ASSIGNMENT_ERRORS)
    pod = Pod(facts, pod_class, reading.digest)
    pod.stated = stated
    return pod


def apply_object(cluster: Cluster, kind: str, record: Record, reading: Reading) -> None:
    """Apply an object, not a pod, that was added or modified. A kind that is not in the table is an owner of pods."""
    observed = kinds_with(cluster.features.table).get(kind)
    if observed is None or not observed.has_own_table:
        name = record.subject.partition("/")[2]
        if reading.uid:
            cluster.others.setdefault(kind, {})[name] = (reading.uid, reading.digest)
        else:
            cluster.others.get(kind, {}).pop(name, None)
    if observed is not None and observed.facts_of is not None:
        _apply_facts(cluster, kind, reading, observed.facts_of)
    apply = apply_workload if observed is None else observed.apply
    apply(cluster, reading)


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


def apply_deletion(cluster: Cluster, kind: str, record: Record, event: ObjectDeleted) -> None:
    """Apply the deletion of an object that is not a pod."""
    observed = kinds_with(cluster.features.table).get(kind)
    if observed is None or not observed.has_own_table:
        name = record.subject.partition("/")[2]
        cluster.others.get(kind, {}).pop(name, None)
        cluster.config_errors.put(record.subject, ())
    drop = drop_owner if observed is None else observed.drop
    drop(cluster, record.subject, event.uid)
    cluster.object_facts.get(kind, {}).pop(record.subject.partition("/")[2], None)
