"""Apply observed pods: what an observation does to what was decided about a pod."""

from msgspec import msgpack, structs

from projections.budget_refusals import wake_covered
from projections.cluster import Cluster
from projections.config_errors import Pairs
from projections.fixed_requests import FIXED, Fixed, fixed_request, with_request
from projections.internal_error import OnError, ignore
from projections.job_option_keys import option_problems
from projections.objects import Metadata, PodObject, readable_pod
from projections.observed_kind import (
    CUT_BYTES,
    TOO_LONG_BYTES,
    UNREADABLE,
    Reading,
    cut_faults,
)
from projections.pod_class import NO_INDEX, parse_class
from projections.pod_devices import ERRORS as ASSIGNMENT_ERRORS
from projections.pod_devices import assign_devices
from projections.pod_reading import pod_reader
from projections.pods import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    UNDECIDED,
    DecidedPod,
    ObservedPod,
    Pod,
    PodFacts,
    Stated,
    pod_facts,
    pod_of,
)
from projections.quarantine import record_admission
from projections.state_facts import StateFacts
from projections.unsettled import ObservedObject


def settle_pod(
    state: StateFacts, seen: ObservedObject, on_error: OnError
) -> tuple[Pod | None, Pod | None] | None:
    """Put the newest version of a pod in its place. Return the version before and this one, which are not counted yet;
    None if all sums and indexes stay the same."""
    cluster, uid = state.cluster, seen.uid
    old = cluster.pods.get(uid)
    if seen.content is None:
        _forget_pod(state, uid, old)
        return None if old is None else (old, None)
    if old is not None and old.observed.digest == seen.record.object:
        return None
    observed, is_read = read_pod(cluster, seen, old, on_error)
    if old is not None and not is_read:
        cluster.last_read.setdefault(seen.record.subject, old.digest)
    elif cluster.last_read:
        cluster.last_read.pop(seen.record.subject, None)
    facts = observed.facts
    if old is not None and not old.decided.reported_at and facts == old.facts:
        # Each observation clears the position of a report.
        plain = observed.pod_class.index
        if plain in (old.pod_class.index, old.pod_class.plain) and is_read:
            # Only status that no decision reads has changed: no sum, index or view row does.
            digest, stated = observed.digest, observed.stated
            same = structs.replace(old.observed, digest=digest, stated=stated)
            cluster.exchange_pod(structs.replace(old, observed=same))
            return None
    if old is not None:
        decided = _carried(old, facts, seen.record.position)
    else:
        decided = DecidedPod(bound_at=seen.record.position) if facts.node else UNDECIDED
    pod = pod_of(observed, decided)
    if facts.assignments or cluster.config_errors.current:
        pod = assign_devices(cluster, pod)
    if old is not None:
        has_ended = pod.status in (SUCCEEDED, FAILED)
        was_over = old.status in (SUCCEEDED, FAILED)
        if has_ended and not was_over:
            for table in cluster.tables.of_pods:
                table.pod_ended(cluster, old, is_deleted=False)
        # A statement that differs confirms nothing before the kubelet has started the pod.
        runs = not pod.decided.stated_devices or facts.phase != "Pending"
        is_over = pod.node != old.node or has_ended
        if old.devices and (is_over or (facts.is_confirmed and runs)):
            state.assignments.remove(old.node, uid)
    else:
        for table in cluster.tables.of_pods:
            table.pod_added(cluster, pod)
    cluster.pods[uid] = pod
    if facts.node in cluster.quarantines.of_node and _is_admitted(old, pod):
        record_admission(cluster, pod)
    return old, pod


def _forget_pod(state: StateFacts, uid: str, old: Pod | None) -> None:
    """Forget what was decided about a pod that is deleted."""
    cluster = state.cluster
    if uid in cluster.eviction_backoff:
        wake_covered(cluster, (uid,))
    for kept in (state.commitments, state.evictions, cluster.eviction_backoff):
        kept.pop(uid, None)
    state.assignments.ranks.pop(uid, None)
    if old is None:
        return
    for table in cluster.tables.of_pods:
        table.pod_ended(cluster, old, is_deleted=True)
    state.assignments.remove(old.node, uid)
    cluster.config_errors.put(f"Pod/{old.key}", ())
    cluster.last_read.pop(f"Pod/{old.key}", None)


def read_pod(
    cluster: Cluster, seen: ObservedObject, old: Pod | None, on_error: OnError
) -> tuple[ObservedPod, bool]:
    """Return the pod as it was observed, and whether reading it did not raise. A pod that cannot be read is kept, with the
    reason. `old` is its last version.

    If reading it raises (a bug of muster), the last known request is a better estimate of its use of the node than nothing.
    """
    content, digest = seen.content, seen.record.object or ""
    assert content is not None
    problem, changed = "", None
    try:
        observed, changed = _read(cluster, seen, content, old)
    except Exception as error:  # any bug: the other pods must still be handled
        reading = Reading(seen.record.subject, digest, seen.uid, content, on_error)
        problem = reading.fail(error)
        if old is None:
            observed = _unreadable(cluster, digest, problem, reading.names())
        else:
            observed = ObservedPod(old.facts, old.pod_class, digest, old.group_key)
    faults: Pairs = ((UNREADABLE, problem),) if problem else ()
    if CUT_BYTES in content or TOO_LONG_BYTES in content:
        faults = (*faults, *cut_faults(content))
    if changed is not None:
        faults = (*faults, (FIXED, changed.message))
    facts = observed.facts
    if facts.pool_options and observed.group_key:
        faults = (*faults, *option_problems(cluster, facts.pool_options))
    errors, subject = cluster.config_errors, seen.record.subject
    if faults or subject in errors.current:
        errors.put(subject, faults, keeps=ASSIGNMENT_ERRORS)
    return observed, not problem


def _read(
    cluster: Cluster, seen: ObservedObject, content: bytes, old: Pod | None
) -> tuple[ObservedPod, Fixed | None]:
    """Return the pod, and what of it differs from what counts since it got its node; None if nothing does."""
    found, digest = seen.pod, seen.record.object or ""
    if found is None:
        found = pod_reader(cluster.device_families).read_facts(content)
    if isinstance(found, str):
        metadata = Reading(seen.record.subject, digest, seen.uid, content, ignore).metadata()
        return _unreadable(cluster, digest, found, metadata), None
    facts, key = found
    classes = cluster.inter_pod_affinity.classes
    fixed = fixed_request(classes, old, facts, key) if old is not None or facts.node else None
    if facts.problem:
        key = (*key, "problem", facts.problem)
    if fixed is None:
        pod_class = classes.by_key.get(key)
        if pod_class is None:
            pod_class = classes.of(key, lambda: readable_pod(content), facts.problem)
        if old is None:
            group_key = cluster.group_key_of(facts)
        else:
            group_key = _group_key_of(cluster, facts, old)
        return ObservedPod(facts, pod_class, digest, group_key), None
    stated: Stated | None = None
    if fixed.changed and not fixed.facts.node:
        parsed = parse_class(
            NO_INDEX, readable_pod(content), cluster.device_families, facts.problem
        )
        stated = Stated(facts, msgpack.encode(key), parsed)
    request, problem = fixed.request, fixed.facts.problem
    pod_class = classes.of(fixed.key, lambda: with_request(readable_pod(content), request), problem)
    observed = ObservedPod(
        fixed.facts, pod_class, digest, cluster.group_key_of(fixed.facts), stated
    )
    return observed, fixed if fixed.changed else None


def _group_key_of(cluster: Cluster, facts: PodFacts, old: Pod) -> str:
    """Return the key of the group of a pod: that of its last version, unless what says it has changed."""
    if (
        facts.group_name == old.facts.group_name
        and facts.owner == old.facts.owner
        and facts.scheduler == old.facts.scheduler
    ):
        return old.group_key
    return cluster.group_key_of(facts)


def _unreadable(cluster: Cluster, digest: str, problem: str, metadata: Metadata) -> ObservedPod:
    """Return a pod of which only the metadata is known."""
    plain = PodObject(metadata=metadata)
    classes = cluster.inter_pod_affinity.classes
    pod_class = classes.of(("unreadable", problem), lambda: plain, problem)
    facts = pod_facts(plain, cluster.device_families)[0]
    return ObservedPod(facts, pod_class, digest, cluster.group_key_of(facts))


def _is_admitted(old: Pod | None, pod: Pod) -> bool:
    """Return whether the kubelet has just started a pod."""
    has_run = (RUNNING, SUCCEEDED)
    return old is not None and pod.status in has_run and old.status not in has_run


def _carried(old: Pod, facts: PodFacts, position: int) -> DecidedPod:
    """Return what was decided about a pod and still stands, unless its new version, seen at `position`, contradicts it."""
    decided = old.decided
    if not facts.node and not old.facts.node:
        if decided is UNDECIDED:
            return decided
        return structs.replace(decided, reported_at=0, stated_devices=())
    if not facts.node:
        # A pod loses its node (K8.5) only if the server was restored from an older state.
        return DecidedPod(failed_bindings=decided.failed_bindings)
    if facts.node == old.node:
        is_back = facts.phase not in ("Succeeded", "Failed") and not old.occupies
        if not (is_back or decided.assumed or decided.reported_at or decided.stated_devices):
            return decided
        return structs.replace(
            decided,
            assumed="",
            bound_at=position if is_back else decided.bound_at,
            reported_at=0,
            stated_devices=(),
        )
    kept = DecidedPod(
        bound_at=position,
        evicted=decided.evicted,
        is_stuck=decided.is_stuck,
        failed_bindings=decided.failed_bindings,
    )
    failed = old.failed_binding(facts.decision, facts.node)
    if failed is None:
        return kept
    # The reported failure was wrong, or came before the binding took effect.
    return structs.replace(
        kept, decision=facts.decision, devices=failed.devices, network=failed.network
    )
