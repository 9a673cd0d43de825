"""Placements and evictions on trial: they change the node table, the users of claims and what queues are charged, and every value is
restored.

A trial is a context manager. Each change first writes down what it changes; `restore` puts these values back down to a mark, and
leaving the trial, also by an exception, all of them, with the order of every dict. Only the nodes that were
changed are touched. Their slots are added to the journal of the node table at every change and restoration, so that caches
read them again. Only a decision in the log changes State. Trials may be nested: the inner one is left first.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct

from events.decision import Placement
from projections import quota_charging
from projections.cluster import Cluster
from projections.group_rows import Nomination
from projections.kept_quota import kept_charge
from projections.nodes import Node, NodeBefore, Request
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pod_terms import Labels
from projections.pods import Charge, Pod
from projections.volumes.claim_users import ClaimUsers

NO_NETWORK: Final[Mapping[str, Labels]] = MappingProxyType({})


class Placed(Struct, frozen=True, gc=False):
    """A pod that is placed on trial."""

    pod: Pod
    node: Node
    devices: tuple[str, ...] = ()
    """Those that were picked for it, if they have names."""
    is_later: bool = False
    """Whether the node has room only once terminating pods are gone."""


class Mark(Struct, frozen=True):
    """How far a trial has come, for `restore`."""

    steps: int
    now: int
    later: int
    evicted: list[Pod]
    evictions: int
    version: int

    @property
    def placed(self) -> int:
        """Return how many pods were placed."""
        return self.now + self.later


class Trial:
    """Placements and evictions of pods of any groups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.now: list[Placed] = []
        """Pods placed on a node that has room now."""
        self.later: list[Placed] = []
        """Pods placed on a node that has room once terminating pods are gone."""
        self.evicted: list[Pod] = []
        """Victims, in the order in which they were chosen."""
        self.charged: dict[str, Amounts] = {}
        """Queue to what it would be charged for the placed pods, less what is charged or kept for them already."""
        self.version = 0
        """Equal again when all changes since then are restored: what had no room has none while it is the same."""
        self._versions = 0
        self._table = cluster.nodes
        self._leaving: dict[str, None] | None = None
        """`leaving` of the node table, in its order, before the first name could be removed from it."""
        self._lifted: dict[str, None] = {}
        """UIDs of the pods whose nominations are lifted."""
        self._steps: list[Callable[[], object]] = []
        """What restores each change, the latest last."""

    def __enter__(self) -> Self:
        """Begin. The columns of the node table are laid out first, so that they can be restored."""
        if not self._table.is_laid_out:
            self._table.lay_out()
        return self

    def __exit__(self, *_raised: object) -> None:
        """Restore all values. What was placed and evicted can still be read."""
        self._undo(0)
        if self._leaving is not None:
            left, self._leaving = self._leaving, None
            self._table.leaving = {name: None for name in left if name in self._table.leaving}

    def mark(self) -> Mark:
        """Return how far the trial has come."""
        return Mark(
            len(self._steps),
            len(self.now),
            len(self.later),
            self.evicted,
            len(self.evicted),
            self.version,
        )

    def restore(self, mark: Mark) -> None:
        """Restore all values as they were at a mark, and forget what was placed and evicted since."""
        self._undo(mark.steps)
        del self.now[mark.now :], self.later[mark.later :]
        self.evicted = mark.evicted
        del self.evicted[mark.evictions :]
        self.version = mark.version

    @property
    def placed(self) -> list[Placed]:
        """Return all placed pods, those with room now first."""
        return [*self.now, *self.later]

    @property
    def count(self) -> int:
        """Return how many pods are placed."""
        return len(self.now) + len(self.later)

    def placed_since(self, mark: Mark) -> list[Placed]:
        """Return the pods placed since a mark, those with room now first."""
        return [*self.now[mark.now :], *self.later[mark.later :]]

    def on_restore(self, step: Callable[[], object]) -> None:
        """Call a step when the trial is restored to a mark before now, or left: what is kept beside it changes with it."""
        self._steps.append(step)

    def begin(self, group: PodGroup) -> None:
        """Begin to place pods of a group: the devices of its nominations, and the quota that is kept for it, are free for it."""
        self.unmark_nominated(group)
        if kept := kept_charge(self.cluster, group.key):
            self._add(self.charged, group.queue, kept, -1)

    def unmark_nominated(self, group: PodGroup) -> None:
        """Free the devices that nominated pods of a group hold on their nodes."""
        for uid, nomination in group.decided.nominations.items():
            node = self.cluster.nodes.nodes[nomination.node]
            marked = node.nominated_pods
            if uid in marked:
                self._steps.append(partial(self._set_nominated, node, marked))
                left = {one: devices for one, devices in marked.items() if one != uid}
                self._set_nominated(node, left)

    def lift_nomination(self, pod: Pod) -> Nomination | None:
        """Release what is nominated for a pod, so that it does not count against the pod itself. Return the nomination, if any."""
        group = self.cluster.groups[pod.group_key]
        nomination = group.decided.nominations.get(pod.facts.uid)
        if nomination is not None and pod.facts.uid not in self._lifted:
            self._steps.append(partial(self._lifted.pop, pod.facts.uid, None))
            self._lifted[pod.facts.uid] = None
            self.lift_reservation(nomination.node, nomination.request)
            self._add(self.charged, group.queue, nomination.charge, -1)
        return nomination

    def lift_reservation(self, name: str, request: Request) -> None:
        """Release resources that are nominated on a node."""
        node = self.cluster.nodes.nodes.get(name)
        if node is not None:
            self._shift(node, "nominated", request, -1)

    def place(
        self,
        pod: Pod,
        node: Node,
        devices: tuple[str, ...] = (),
        *,
        later: bool = False,
        is_last: bool = False,
    ) -> None:
        """Take room and devices for a pod. The last pod of a gang need not take any: no other pod is placed after it."""
        group = self.cluster.groups[pod.group_key]
        if group.decided.nominations:
            self.lift_nomination(pod)
        (self.later if later else self.now).append(Placed(pod, node, devices, later))
        if is_last:
            return
        if pod.pod_class.claims:
            claims = self.cluster.indexes.of(ClaimUsers)
            self._steps.append(partial(claims.leave_out, pod))
            claims.try_pod(pod, node.name)
        kind, request = "nominated" if later else "occupied", pod.pod_class.request
        charge = quota_charging.charge_on(self.cluster, pod.pod_class, node.name)
        self._versions += 1
        self.version = self._versions
        before, charged = self._table.set_aside(node, kind, request), self.charged.get(group.queue)
        uid = pod.facts.uid
        self._steps.append(partial(self._take_back, before, uid, group.queue, charged))
        self._table.shift(node, kind, request, 1)
        node.trial_pods[uid] = devices
        self.charged[group.queue] = _sum(charged or {}, charge, 1)

    def _take_back(self, before: NodeBefore, uid: str, queue: str, charged: Amounts | None) -> None:
        """Undo a placement, or as much of it as was done."""
        if charged is None:
            self.charged.pop(queue, None)
        else:
            self.charged[queue] = charged
        before.node.trial_pods.pop(uid, None)
        self._table.put_back(before)

    def keep_claim(self, claim: str, node: Node) -> None:
        """Keep a claim that one node at a time can use for a node, before the pods that share it are placed there."""
        claims = self.cluster.indexes.of(ClaimUsers)
        self._steps.append(partial(claims.stop_keeping, claim))
        claims.keep(claim, node.name)

    def evict(self, pod: Pod) -> None:
        """Evict a pod: its resources become releasing."""
        self.evicted.append(pod)
        node = self.cluster.nodes.nodes[pod.node]
        self._shift(node, "releasing", pod.pod_class.request, 1)
        self._steps.append(partial(node.trial_victims.pop, pod.facts.uid, None))
        node.trial_victims[pod.facts.uid] = None

    def spare(self, pod: Pod) -> None:
        """Keep a pod that was evicted, though others evicted after it stay so."""
        self.evicted = [one for one in self.evicted if one is not pod]
        node = self.cluster.nodes.nodes[pod.node]
        self._shift(node, "releasing", pod.pod_class.request, -1)
        victims = node.trial_victims
        self._steps.append(partial(setattr, node, "trial_victims", victims))
        node.trial_victims = {uid: None for uid in victims if uid != pod.facts.uid}

    def _undo(self, left: int) -> None:
        while len(self._steps) > left:
            self._steps.pop()()

    def _shift(self, node: Node, kind: str, request: Request, sign: int) -> None:
        self._versions += 1
        self.version = self._versions
        if sign < 0 and self._leaving is None:
            self._leaving = self._table.leaving.copy()
        before = self._table.set_aside(node, kind, request)
        self._steps.append(partial(self._table.put_back, before))
        self._table.shift(node, kind, request, sign)

    def _set_nominated(self, node: Node, marked: dict[str, tuple[str, ...]]) -> None:
        """Set which nominated pods hold devices on a node."""
        self._versions += 1
        self.version = self._versions
        node.nominated_pods = marked
        self._table.invalidate(node.name)

    def _add(self, sums: dict[str, Amounts], key: str, charge: Charge, sign: int) -> None:
        """Add a charge to the amounts of a key, or (-1) remove it."""
        before = sums.get(key)
        if before is None:
            self._steps.append(partial(sums.pop, key, None))
        else:
            self._steps.append(partial(sums.__setitem__, key, before))
        sums[key] = _sum(before or {}, charge, sign)


def _sum(amounts: Amounts, charge: Charge, sign: int) -> Amounts:
    """Return amounts with a charge added, or (-1) removed."""
    found = amounts.copy()
    for name, amount in charge:
        found[name] = found.get(name, 0) + sign * amount
    return found


def placements(
    cluster: Cluster, placed: Iterable[Placed], network: Mapping[str, Labels] = NO_NETWORK
) -> tuple[Placement, ...]:
    """Return placed pods as a decision records them, with the annotations of each by UID that say where in the network it is."""
    return tuple(
        Placement(
            pod=one.pod.key,
            uid=one.pod.facts.uid,
            node=one.node.name,
            cards={
                name: amount
                for name, amount in quota_charging.charge_on(
                    cluster, one.pod.pod_class, one.node.name
                )
                if name in cluster.cards.resource
            },
            devices=one.devices,
            network=network.get(one.pod.facts.uid, ()),
        )
        for one in placed
    )
