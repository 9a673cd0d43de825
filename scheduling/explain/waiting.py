"""What a pod group waits for: every level that it has to pass, with the numbers of the moment.

The levels are checked with the functions that decide. A trial placement leaves no trace.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from events.decision import INTERNAL_ERROR
from events.duration import format_duration
from projections import eviction_pauses, quota_charging
from projections.group_rows import Refusal
from projections.kind_table import REQUIRED
from projections.pod_class import Amounts
from projections.pod_groups import INQUEUE, WAITING, PodGroup
from projections.pods import CONDITIONS_MAX, Pod
from projections.policy.policy import EVICTING
from projections.refusals import (
    CARD_CODES,
    CLAIM_CODES,
    EVICTION_CODES,
    GROUP_CODES,
    NODE_CODES,
    PODS_NOT_CREATED,
    REACH_CODES,
)
from projections.rescheduling import keeps_admission
from projections.tenants import tenant_text
from scheduling.device_request import invalid_device_request, too_few_devices
from scheduling.explain.bounds import option_hurdles
from scheduling.explain.holders import Holders
from scheduling.explain.nodes import large_enough, nearest
from scheduling.explain.quota import QueueLimits
from scheduling.explain.volumes import volume_hurdle
from scheduling.explanation import Hurdle, InLine, Judged, Limit, Waiting
from scheduling.gang_attempt import missing_pods, precheck, task_text
from scheduling.gang_placement import place_gang, placement_problem
from scheduling.quota.quota_rules import quota_of
from scheduling.session import Session
from scheduling.shortage import Shortage
from scheduling.unschedulable import Unschedulable, node_reasons, quota_unschedulable
from scheduling.volumes.claim_check import ClaimCheck
from scheduling.yielded_reservation import waits_for_other

AHEAD_MAX: Final = 3


class _Tried(Struct, frozen=True):
    """The result of a trial placement of the group."""

    is_ready: bool
    is_pipelined: bool
    placed: int
    reason: Unschedulable | None


def _hurdle(level: str, reason: Unschedulable | None, text: str) -> Hurdle:
    return Hurdle(level, reason is None, text if reason is None else reason.message)


def _unreported_hurdle(pod: Pod | None) -> Iterable[Hurdle]:
    """Yield that the status of a pod is not updated because of its size; it is placed all the same."""
    if pod is not None and pod.facts.is_cut and not pod.facts.problem:
        text = f"the pod has more than {CONDITIONS_MAX} conditions: muster does not update them"
        yield Hurdle("status", True, text)


def _is_repeated(hurdle: Hurdle, others: Iterable[Hurdle]) -> bool:
    """Return True if the level of cards or of volumes gives the same answer."""
    return any(one.level in ("card", "volumes") and one.text == hurdle.text for one in others)


def _refusal_order(refusal: Refusal) -> tuple[bool, int]:
    """The last refusal of the group itself; that of a preemption comes after it."""
    return refusal.code not in (*EVICTION_CODES, INTERNAL_ERROR), refusal.position


def _level(code: str) -> str:
    """Return the level at which a refusal with this code was found, while nodes were sought for the pods."""
    if code in (*CLAIM_CODES, *REACH_CODES):
        return "volumes"
    if code in GROUP_CODES:
        return "pod group"
    return "nodes" if code in NODE_CODES else "quota"


class WaitingExplanation:
    """What one pod group waits for."""

    def __init__(self, session: Session, group: PodGroup) -> None:
        self._session = session
        self._state, self._cluster = session.state, session.cluster
        self._group = group

    def explain(self) -> Waiting | None:
        """Return what the group waits for; None if no pod of it waits, it is admitted and its gang is complete, or it belongs
        to another scheduler."""
        session, group, cluster = self._session, self._group, self._cluster
        if group.is_foreign:
            return None
        waits = bool(group.pending) or bool(group.counts.gated) or group.decided.phase == WAITING
        waits = waits or group.key in cluster.pod_waits.of
        if not waits and not group.is_broken:
            return None
        cluster.nodes.lay_out()
        failed = self._internal_error()
        if failed is not None:
            return failed
        problem = precheck(session, group)
        denied = None if problem is not None else self._denied()
        short, far = missing_pods(group), placement_problem(session, group)
        invalid = invalid_device_request(session, group)
        is_tried = not (problem or short or invalid or far)
        tried = self._try_placement() if is_tried else None
        reason = (
            problem
            or denied
            or short
            or invalid
            or far
            or (tried.reason if tried is not None else None)
        )
        pod = self._pod_to_judge(reason)
        hurdles = (
            *self._cluster_hurdles(),
            _hurdle("queue", problem, "it exists and accepts pod groups"),
            *self._admission_hurdle(problem, denied),
            *self._card_hurdle(pod),
            _hurdle("gang", short, self._gang_text()),
            *([_hurdle("devices", invalid, "")] if invalid is not None else []),
            *self._network_hurdle(far),
            *volume_hurdle(session.rankings, group, pod),
        )
        standing = max(group.decided.refusals.values(), key=_refusal_order, default=None)
        return Waiting(
            pod_group=group.key,
            code=reason.code if reason else "",
            message=reason.message if reason else "",
            since=standing.position if standing else 0,
            hurdles=(
                *hurdles,
                *(
                    one
                    for one in self._room_hurdles(
                        tried, is_kept=not all(one.passed for one in hurdles)
                    )
                    if not _is_repeated(one, hurdles)
                ),
                *_unreported_hurdle(pod),
                *self._pause_hurdle(),
                *self._evicting_hurdles(),
            ),
            admission=self._admission(),
            quota=self._quota(pod),
            nodes=self._judged(pod, is_short=tried is not None and not tried.is_ready),
            held=Holders(cluster).needed_by(pod, reason),
            line=self._place_in_line(),
        )

    def _internal_error(self) -> Waiting | None:
        """The answer for a group whose last evaluation raised: an evaluation here would raise, too."""
        failed = [
            (action, one)
            for action, one in self._group.decided.refusals.items()
            if one.code == INTERNAL_ERROR and action not in EVICTING
        ]
        if not failed:
            return None
        action, standing = max(failed, key=lambda one: one[1].position)
        text = f"{standing.message}{self._tried_again(action)}"
        return Waiting(
            pod_group=self._group.key,
            code=standing.code,
            message=standing.message,
            since=standing.position,
            hurdles=(*self._cluster_hurdles(), Hurdle("pod group", False, text)),
            admission=(),
            quota=(),
            nodes=None,
            held=(),
            line=None,
        )

    def _tried_again(self, action: str) -> str:
        """When the group is evaluated again after an internal error; empty without one."""
        found = self._cluster.internal_errors.groups.get(self._group.key, {}).get(action)
        if found is None or not found.until_ns:
            return ""
        left = format_duration(max(0, found.until_ns - self._state.now_ns))
        return f"; tried again when the group changes, or {left} after the last cycle"

    def _cluster_hurdles(self) -> Iterable[Hurdle]:
        group, state, cluster = self._group, self._state, self._cluster
        if not state.is_synced:
            missing = ", ".join(kind for kind in REQUIRED if kind not in state.listed)
            yield Hurdle(
                "cluster", False, f"nothing is decided before the list of {missing} is complete"
            )
        if group.key in cluster.bind_backoffs.until:
            left = max(0, cluster.bind_backoffs.until[group.key] - state.now_ns)
            tries = cluster.bind_backoffs.failures.get(group.key, 0)
            text = f"{tries} bindings in a row failed: tried again {format_duration(left)} after the last cycle"
            yield Hurdle("pod group", False, text)
        yield from option_hurdles(cluster, group)
        if gated := group.counts.gated:
            yield Hurdle(
                "pod group", False, f"{gated} pods wait for their scheduling gates to be removed"
            )

    def _denied(self) -> Unschedulable | None:
        group, cluster = self._group, self._cluster
        if group.decided.phase != WAITING or "enqueue" not in cluster.policy.actions:
            return None
        if keeps_admission(cluster, group.key):
            return None
        if cluster.pod_waits.is_backing_off(group.key):
            standing = group.decided.refusals.get("enqueue")
            text = "its pods did not come in time" if standing is None else standing.message
            left = max(0, cluster.pod_waits.of[group.key].until_ns - self._state.now_ns)
            text += f"; it is voted on again {format_duration(left)} after the last cycle, after all others"
            return Unschedulable(PODS_NOT_CREATED, "", text)
        short = self._session.enqueue_check.admission(group).short
        if short is None:
            return too_few_devices(self._session, group)
        return waits_for_other(cluster, group, quota_unschedulable(short))

    def _admission_hurdle(
        self, problem: Unschedulable | None, denied: Unschedulable | None
    ) -> Iterable[Hurdle]:
        """Yield the check of the action enqueue; nothing if the queue itself is closed (`problem`)."""
        group = self._group
        if group.decided.phase != WAITING:
            text = f"admitted to queue {group.queue}: phase {group.decided.phase}{self._reserved_text()}"
            yield Hurdle("admission", True, text)
        elif problem is None:
            yield _hurdle("admission", denied, f"queue {group.queue} would admit it now")

    def _reserved_text(self) -> str:
        """Whether an admitted group's reservation has ended or is about to end."""
        group = self._group
        if group.decided.phase != INQUEUE:
            return ""
        wait = self._cluster.pod_waits.of.get(group.key)
        if wait is not None:
            text = (
                f"; it has {group.counts.valid} of its {max(1, group.observed.min_available)} pods"
            )
            if not wait.until_ns:
                return f"{text}, and any group that asks for it may take its reservation"
            left = format_duration(max(0, wait.until_ns - self._state.now_ns))
            return f"{text}, and its reservation is protected for {left} more"
        if group.never_fits:
            is_tired = any(one.is_timed_out for one in group.decided.refusals.values())
            codes = [one.code for one in group.decided.refusals.values() if one.never_fits]
            own_codes = [code for code in codes if code in CARD_CODES | CLAIM_CODES | GROUP_CODES]
            if is_tired:
                why = "too many nodes that fit its pods have been unavailable to it for too long"
            elif own_codes:
                why = f"it is refused with {own_codes[0]}"
            else:
                why = "no existing nodes fit the pods of its gang"
            return f"; nothing is reserved for it: {why}"
        until = self._cluster.cluster_totals.reservation_timeouts.get(group.key)
        if until is None:
            return ""
        left = format_duration(max(0, until - self._state.now_ns))
        return f"; too many nodes that fit its pods are unavailable to it: its reservation ends in {left}"

    def _card_hurdle(self, pod: Pod | None) -> Iterable[Hurdle]:
        """The cards that the pod names and its queue may use; nothing for a pod without cards."""
        cluster = self._cluster
        if pod is None:
            return
        queue = cluster.queues[self._group.queue]
        chosen = quota_of(cluster).choose_cards(cluster, queue, pod.pod_class, {})
        if isinstance(chosen, Shortage):
            yield Hurdle("card", False, chosen.message)
        elif chosen.cards:
            text = f"queue {self._group.queue} allows {pod.key} to use {' or '.join(chosen.cards)}"
            for card in chosen.over_quota:
                some = cluster.plugins.quota.limit(cluster, queue, card)
                text += (
                    f"; its quota of {card} is used up" if some else f"; it has no quota of {card}"
                )
            yield Hurdle("card", True, text)

    def _network_hurdle(self, far: Unschedulable | None) -> Iterable[Hurdle]:
        """The network topology that its pods need; nothing if there is none."""
        group = self._group
        if not group.has_topology_constraint:
            return
        wishes = (
            []
            if group.topology_constraint is None
            else [f"its pods must be {group.topology_constraint.text}"]
        )
        wishes += [
            f"those of a sub-group {rule.name} {rule.topology_constraint.text}"
            for rule in (() if group.sub_groups is None else group.sub_groups.rules)
            if rule.topology_constraint is not None
        ]
        yield _hurdle("network", far, ", ".join(wishes))

    def _try_placement(self) -> _Tried | None:
        if not self._group.pending_classes:
            return None
        attempt = place_gang(self._session, self._group)
        placed = len(attempt.trial.now)
        is_done = attempt.is_ready or attempt.is_pipelined
        reason = None if is_done or attempt.reason is None else attempt.refusal
        return _Tried(attempt.is_ready, attempt.is_pipelined, placed, reason)

    def _room_hurdles(self, tried: _Tried | None, *, is_kept: bool) -> Iterable[Hurdle]:
        """Yield whether there is room. With `is_kept`, something else keeps the next cycle from binding pods."""
        if self._group.decided.nominations:
            nodes = ", ".join(
                sorted({held.node for held in self._group.decided.nominations.values()})
            )
            yield Hurdle("nodes", False, f"nominated to {nodes}, where pods are still terminating")
        if tried is None:
            return
        if tried.is_ready and is_kept:
            yield Hurdle("nodes", True, f"there is room for {tried.placed} of its pods")
        elif tried.is_ready:
            yield Hurdle("nodes", True, f"the next cycle would bind {tried.placed} of its pods")
        elif tried.is_pipelined:
            yield Hurdle("nodes", False, "there is room once terminating pods are gone")
        elif tried.reason is not None:
            yield Hurdle(_level(tried.reason.code), False, tried.reason.message)

    def _pause_hurdle(self) -> Iterable[Hurdle]:
        """Yield that no pods are evicted for the group because its tenant has used up its share."""
        group = self._group
        until_ns = eviction_pauses.until_ns(self._cluster, group.key, group.queue)
        if until_ns is not None and group.pending:
            tenant = tenant_text(self._cluster.tenants.tenant_of(group.key.partition("/")[0]))
            left = format_duration(max(0, until_ns - self._state.now_ns))
            text = f"{tenant} has used up its share of the evictions of a minute in queue {group.queue}: pods are evicted for it again {left} after the last cycle"
            yield Hurdle("eviction", False, text)

    def _evicting_hurdles(self) -> Iterable[Hurdle]:
        """Why no pod is evicted in its favour, as last recorded."""
        for action in EVICTING:
            if (refusal := self._group.decided.refusals.get(action)) is not None:
                yield Hurdle(action, False, refusal.message + self._tried_again(action))

    def _gang_text(self) -> str:
        group = self._group
        have, least = group.counts.valid, group.observed.min_available
        text = (
            f"it has {have} of the {least} pods it needs, {group.counts.ready} placed or finished"
        )
        by_role = group.valid_by_role if group.enforced_roles else {}
        for role, wanted in sorted(group.enforced_roles.items()):
            text += f"; {task_text(role)}: {by_role.get(role, 0)} of {wanted}"
        return text

    def _pod_to_judge(self, reason: Unschedulable | None) -> Pod | None:
        """The pod that the refusal was found at, else the first waiting one."""
        waits = self._group.pending
        found = (pod for pod in waits if reason is not None and pod.key == reason.pod)
        return next(found, waits[0] if waits else None)

    def _admission(self) -> tuple[Limit, ...]:
        group, cluster = self._group, self._cluster
        asked = quota_charging.admission_request(cluster, group)
        if group.decided.phase != WAITING or asked is None:
            return ()
        queue = cluster.queues[group.queue]
        reclaimable = (
            self._session.reclaimable.of_queue(group, asked) if cluster.policy.evicting else {}
        )
        return QueueLimits(cluster, queue).reserved(asked, reclaimable)

    def _quota(self, pod: Pod | None) -> tuple[Limit, ...]:
        """The charge of the pods that the gang still lacks, at least one."""
        group, cluster = self._group, self._cluster
        if pod is None:
            return ()
        total: Amounts = {}
        missing = max(1, group.observed.min_available - group.counts.ready)
        for one in group.pending[:missing]:
            for name, amount in cluster.ledgers.requested[one.facts.uid]:
                total[name] = total.get(name, 0) + amount
        return QueueLimits(cluster, cluster.queues[group.queue]).charged(tuple(total.items()), {})

    def _judged(self, pod: Pod | None, *, is_short: bool) -> Judged | None:
        """Judge all nodes for this pod alone, without the rest of its gang; None if no node matters, as a claim of it cannot be
        used."""
        group, cluster = self._group, self._cluster
        if pod is None or ClaimCheck(cluster, pod.pod_class).refusal(group) is not None:
            return None
        rankings = self._session.rankings
        cards = QueueLimits(cluster, cluster.queues[group.queue]).cards_allowed(pod.pod_class, {})
        job = rankings.job_of(group)
        fitting = int(np.count_nonzero(rankings.of(pod.pod_class, cards, job).scores() >= 0))
        return Judged(
            pod=pod.key,
            total=len(cluster.nodes.order),
            fitting=fitting,
            large_enough=large_enough(rankings, pod.pod_class, cards, job),
            reasons=node_reasons(rankings, pod.pod_class, cards, job)[0],
            nearest=nearest(rankings, pod.pod_class, cards, job) if is_short else (),
        )

    def _place_in_line(self) -> InLine | None:
        group = self._group
        standing = self._cluster.scheduling_queue.of(group)
        if not standing:
            return None
        keys = [
            one.key
            for one in self._cluster.scheduling_queue.in_order(group.queue, standing[0].action)
        ]
        index = keys.index(group.key)
        ahead = tuple(reversed(keys[max(0, index - AHEAD_MAX) : index]))
        return InLine(action=standing[0].action, place=index + 1, of=len(keys), ahead=ahead)
