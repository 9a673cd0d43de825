"""Daemon, policy, time and watches."""

from collections.abc import Iterator
from typing import Final

import msgspec

from events.standing.log import (
    CycleStands,
    DaemonStands,
    ObjectRevisionStands,
    PolicyStands,
    WatchStands,
)
from projections.base.contributor import BaseFold, Contributor, Stand, plain
from projections.kinds.pod_group import POD_GROUPS
from projections.policy.policy import parse_policy
from projections.state import State


def _stands(state: State) -> Iterator[Stand]:
    cluster = state.cluster
    daemon = DaemonStands(
        period_ns=state.period_ns,
        scheduler_names=cluster.scheduler_names,
        is_shadow=cluster.is_shadow,
        pod_labels=cluster.pod_labels,
        volume_kinds=tuple(cluster.volume_kinds.items()),
    )
    yield Stand("Daemon//", daemon)
    policy = PolicyStands(position=state.policy_position, policy=msgspec.Raw(state.policy_document))
    yield Stand("Policy//", policy)
    yield Stand("Cycle//", CycleStands(position=state.cycle, at_ns=state.now_ns))
    kinds = dict.fromkeys((*state.listed, *state.watched, *state.newest))
    if cluster.are_groups_listed:
        kinds[POD_GROUPS.kind] = None
    for kind in kinds:
        newest = [
            ObjectRevisionStands(
                subject=subject, uid=uid, resource_version=revision, is_gone=is_gone
            )
            for subject, (uid, revision, is_gone) in state.newest.get(kind, {}).items()
        ]
        watch = WatchStands(
            resource=kind,
            is_listed=kind in state.listed,
            was_ever_listed=kind == POD_GROUPS.kind and cluster.are_groups_listed,
            resource_version=state.watched.get(kind),
            newest=tuple(newest),
        )
        yield Stand(f"Watch//{kind}", watch)


def _apply(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    state, cluster, event = fold.state, fold.state.cluster, stand.event
    match event:
        case DaemonStands():
            state.period_ns = event.period_ns
            cluster.scheduler_names, cluster.is_shadow = event.scheduler_names, event.is_shadow
            cluster.pod_labels, cluster.volume_kinds = event.pod_labels, dict(event.volume_kinds)
        case PolicyStands():
            state.policy_position, state.policy_document = event.position, bytes(event.policy)
            cluster.set_policy(
                parse_policy(state.policy_document, cluster.features.table.policy_table)[0]
            )
        case CycleStands():
            state.cycle, state.now_ns, cluster.now_ns = event.position, event.at_ns, event.at_ns
            cluster.quarantines.cycle_ns = event.at_ns
        case WatchStands():
            if event.is_listed:
                state.listed[event.resource] = None
            cluster.are_groups_listed |= event.was_ever_listed
            if event.resource_version is not None:
                state.watched[event.resource] = event.resource_version
            if event.newest:
                state.newest[event.resource] = {
                    one.subject: (one.uid, one.resource_version, one.is_gone)
                    for one in event.newest
                }
        case _:
            raise AssertionError(f"{event.kind} is read elsewhere")


LOG: Final = Contributor(
    kinds=(DaemonStands, PolicyStands, CycleStands, WatchStands),
    pieces=plain(_stands),
    apply=_apply,
)
