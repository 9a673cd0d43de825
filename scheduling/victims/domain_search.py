"""The search for room for a gang in one domain.

Victim bundles are evicted until the sums of what is free, releasing and freed by them cover the gang. Then the placement is
tried: the pods of the gang look for nodes with the bundles gone. If that fails one more bundle is added. In the end
every bundle is restored that the gang does not need.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from projections.nodes import Node
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from scheduling.card_choice import CardChoice
from scheduling.gang_attempt import cards_to_charge
from scheduling.group_trial import GroupTrial
from scheduling.session import Session
from scheduling.topology.node_scope import NodeScope
from scheduling.trial import Mark
from scheduling.victims.gang_victims import GangVictims, VictimBundle
from scheduling.victims.victim_decisions import is_whole
from scheduling.work_budget import BUNDLE

TRIES_MAX: Final = 32
"""Maximum number of bundles that are tried one by one for being restored."""

GROWTH: Final = 4
"""After a failed placement one in this many of the chosen bundles is added before the next try."""


class DomainSearch:
    """The victims that are chosen in one domain for a gang that lacks the `wanted` pods, which request `need` together."""

    def __init__(
        self,
        session: Session,
        victims: GangVictims,
        trial: GroupTrial,
        where: NodeScope,
        wanted: Sequence[Pod],
        need: Amounts,
    ) -> None:
        self._session = session
        self._victims = victims
        self._trial = trial
        self._where = where
        self._wanted = wanted
        self._need = need
        self._job = session.rankings.job_of(trial.group)
        self._chosen: list[VictimBundle] = []
        """The bundles that are evicted."""
        self._room: Amounts = {}
        """What is free with them evicted, of what is needed."""

    def free(
        self,
        nodes: Sequence[Node],
        groups: Iterable[PodGroup],
        groups_read: int,
        is_used_up: Callable[[], bool] | None = None,
    ) -> bool | None:
        """Return True if the gang can be placed on the nodes of the domain with victims of these groups; if so, the trial holds
        the placement. Return None if the search stopped before all bundles were tried, because the work `is_used_up`."""
        self._room = self._idle_resources(nodes)
        found = self._victims.bundles(self._where, self._need, groups)
        self._session.work.add_bundles(groups_read, len(found))
        has_tried, enough, need = False, 0, self._need
        for bundle in (None, *found, None):
            if has_tried and is_used_up is not None and is_used_up():
                return None
            if bundle is not None and not self._evict(bundle):
                continue
            would_do = all(self._room[name] >= most for name, most in need.items())
            if not would_do or (bundle is not None and len(self._chosen) < enough):
                continue
            evicted = self._try_placement()
            if evicted is not None:
                self._restore_unneeded(evicted)
                return is_whole(self._trial)
            has_tried = True
            # Skip some tries: surplus bundles are restored in the end.
            enough = len(self._chosen) + 1 + len(self._chosen) // GROWTH
        return False

    def _idle_resources(self, nodes: Sequence[Node]) -> Amounts:
        """Return what is free on the nodes of the domain, or will be."""
        total: Amounts = dict.fromkeys(self._need, 0)
        self._session.work.add(len(nodes))
        for node in nodes:
            if self._where.admits(node):
                for name in total:
                    total[name] += max(0, node.free.get(name, 0), node.future(name))
        return total

    def _evict(self, bundle: VictimBundle) -> bool:
        """Evict the pods of a bundle that are still there, if all of them may be evicted."""
        self._session.work.add(BUNDLE)
        gone = self._trial.evicted_of(bundle.group.key)
        pods = tuple([pod for pod in bundle.pods if pod not in gone])
        left = VictimBundle(bundle.group, pods, bundle.is_safe)
        if not self._victims.may_evict_all(left):
            return False
        for pod in left.pods:
            self._trial.evict(pod)
        self._chosen.append(left)
        self._add_room(pods, 1)
        return True

    def _add_room(self, pods: Iterable[Pod], sign: int) -> None:
        """Add what the eviction of pods frees, or (-1) subtract it."""
        given = self._victims.freed(pods, self._where)
        for name in self._room:
            self._room[name] += sign * given.get(name, 0)

    def _try_placement(self) -> Mark | None:
        """Place the pods of the gang. Return the trial as it was before; None if they find no nodes, with all as before."""
        before = self._trial.mark()
        if all(self._place(pod) for pod in self._wanted) and is_whole(self._trial):
            return before
        self._trial.restore(before)
        return None

    def _place(self, pod: Pod) -> bool:
        session, trial, where = self._session, self._trial, self._where
        choice = cards_to_charge(session, trial.group, pod, trial.extra)
        if not isinstance(choice, CardChoice):
            return False
        session.work.add_pod(pod.pod_class)
        ranking = session.rankings.of(pod.pod_class, choice.cards, self._job)
        node = where.best(ranking, pod.pod_class)
        # If any pod is evicted, if only to release quota, the gang waits for that.
        is_later = node is None or bool(trial.evicted)
        if node is None:
            node = where.best_later(ranking)
        if node is not None:
            devices = ranking.devices.pick(node, later=is_later)
            trial.place(pod, node, devices, later=is_later)
        return node is not None

    def _restore_unneeded(self, evicted: Mark) -> None:
        """Restore the bundles that the gang does not need: those far from it together, then one by one, the most
        expensive first. Bundles of a group whose whole gang is evicted are restored or evicted together. `evicted` is the trial
        before the gang was placed."""
        used = {one.node.name for one in self._trial.placed}
        broken = {one.group.key for one in self._chosen if not one.is_safe}
        far = [
            one
            for one in self._chosen
            if not any(pod.node in used for pod in one.pods)
            and not (one.is_safe and one.group.key in broken)
        ]
        evicted = self._restore(far, evicted)
        for bundle in reversed(self._chosen[-TRIES_MAX:]):
            if not (bundle.is_safe and bundle.group.key in broken):
                evicted = self._restore([bundle], evicted)

    def _restore(self, some: list[VictimBundle], evicted: Mark) -> Mark:
        """Restore bundles if the gang can be placed without them. Return the trial before the gang was placed."""
        pods = [pod for one in some for pod in one.pods]
        given = self._victims.freed(pods, self._where)
        lacks = any(self._room[name] - given.get(name, 0) < self._need[name] for name in self._room)
        if not some or lacks:
            return evicted
        self._trial.restore(evicted)
        for pod in pods:
            self._trial.spare(pod)
        without = self._try_placement()
        if without is not None:
            for one in some:
                self._chosen.remove(one)
            self._add_room(pods, -1)
            return without
        self._trial.restore(evicted)
        self._try_placement()
        return evicted
