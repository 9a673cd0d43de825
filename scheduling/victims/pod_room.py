"""Room for the pod of a preemptor: whether it fits a node with the victims chosen so far, and which further ones make it fit."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from projections import quota_charging
from projections.nodes import Node
from projections.pods import Charge, Pod
from scheduling.node_predicates import ADMITTED
from scheduling.node_ranking import NodeRankings
from scheduling.quota import quota_check
from scheduling.victims.candidates import VictimCandidates
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.protection import VictimProtection


class PodRoom:
    """Resources, devices, pods there, and quota: what one pod needs of a node once terminating pods and victims are gone."""

    def __init__(self, preemptor: Preemptor, rankings: NodeRankings) -> None:
        self.preemptor = preemptor
        self._cluster, self._trial = preemptor.cluster, preemptor.trial
        self._pod_class = preemptor.pod.pod_class
        self._request = self._pod_class.request
        self._rankings = rankings
        self._job = rankings.job_of(preemptor.group)
        # The cards that would do, regardless of the queue's quota: evictions change that.
        self._cards = self._cluster.plugins.quota.named_cards(self._cluster, self._pod_class)
        self.ranking = rankings.of(self._pod_class, self._cards, self._job)
        self._pod_topology = rankings.pod_topology(self._pod_class)
        self._candidates = VictimCandidates(preemptor)
        self._protection = VictimProtection(preemptor)
        self._short: dict[tuple[Charge, int], tuple[str, ...]] = {}
        """Charge and version of the trial to the quota limits that the charge would exceed."""

    def admitting_nodes(self) -> npt.NDArray[np.bool_]:
        """Return the nodes that admit the pod, regardless of the pods there."""
        rankings = self._rankings
        is_open: npt.NDArray[np.bool_] = rankings.predicates(self._pod_class).verdicts == ADMITTED
        having_devices = rankings.having_devices(self._pod_class, self._cards, self._job)
        return is_open if having_devices is None else is_open & having_devices

    def fits(self, node: Node) -> bool:
        """Return True if the pod fits the node once terminating pods are gone, and its queue may be charged for it."""
        if not node.fits_later(self._request) or not self._has_devices(node):
            return False
        topology, trial = self._pod_topology, self._trial
        if topology is not None and not topology.admitted(later=True)[node.slot]:
            return False
        short = quota_check.may_allocate(
            self._cluster,
            self.preemptor.queue,
            self._charge(node),
            trial.extra,
            trial.released_above,
        )
        return short is None

    def quota_short(self, node: Node) -> tuple[str, ...]:
        """Return the quota limits that the charge of the pod on a node would exceed."""
        charge, trial = self._charge(node), self._trial
        found = self._short.get((charge, trial.version))
        if found is None:
            cluster, queue, extra = self._cluster, self.preemptor.queue, trial.extra
            above = trial.released_above
            names = [
                one[0]
                for one in charge
                if quota_check.may_allocate(cluster, queue, (one,), extra, above) is not None
            ]
            found = self._short[charge, trial.version] = tuple(names)
        return found

    @property
    def equivalence_class(self) -> tuple[object, ...] | None:
        """Return a key that is equal for preemptors for which the same nodes can be freed; None if that depends on more."""
        return None if self._pod_topology is not None else self.preemptor.equivalence_class

    def free(self, node: Node, short: tuple[str, ...]) -> str:
        """Evict victims on a node until the pod has room there; `short` are the quota limits that are exceeded there. Return why
        it fails, with all as before, or an empty text."""
        preemptor, trial = self.preemptor, self._trial
        if short and preemptor.action == "reclaim" and preemptor.queue.parent is None:
            return "node(s) have no victims that release the exceeded quota of the queue"
        before = trial.mark()
        for pod in self._victims_on(node, short):
            if self.fits(node):
                break
            trial.evict(pod)
        if not self.fits(node):
            trial.restore(before)
            return "node(s) would not have enough room after evicting all allowed victims"
        # Without the last one there was no room.
        self._spare_unneeded(node, trial.evicted[before.evictions : -1])
        return ""

    def least_victims(self, node: Node) -> int:
        """Return a number of victims below which a node cannot be freed for the pod: by the largest requests of the pods there."""
        pods, least = self._cluster.pods, 1
        for name, lacking in node.lacking_later(self._request).items():
            there = sorted(
                (dict(pods[uid].pod_class.request).get(name, 0) for uid in node.pods), reverse=True
            )
            count = 0
            for one in there:
                if lacking <= 0 or not one:
                    break
                lacking, count = lacking - one, count + 1
            least = max(least, count)
        return least

    def pick_devices(self, node: Node, *, later: bool) -> tuple[str, ...]:
        """Return the devices that the pod gets on a node, if they have names."""
        return self.ranking.devices.pick(node, later=later)

    def _victims_on(self, node: Node, short: tuple[str, ...]) -> list[Pod]:
        """Return the pods on a node that may be evicted together and have what is lacking there, of resources, of devices, or
        (`short`) of quota, in eviction order."""
        is_useful = self._victim_filter(node, short)
        candidates = [pod for pod in self._candidates.on_node(node) if is_useful(pod)]
        return self._protection.allowed(candidates)

    def _spare_unneeded(self, node: Node, gone: list[Pod]) -> None:
        """Spare the victims on a node that are not needed, the most expensive first."""
        for pod in reversed(gone):
            before = self._trial.mark()
            self._trial.spare(pod)
            if not self.fits(node):
                self._trial.restore(before)

    def _victim_filter(self, node: Node, short: tuple[str, ...]) -> Callable[[Pod], bool]:
        """Return a function that tells whether evicting a pod helps."""
        topology = self._pod_topology
        lacking = node.lacking_later(self._request)
        lacks_devices = not self._has_devices(node)

        def is_useful(pod: Pod) -> bool:
            if lacks_devices and pod.devices:
                return True
            if topology is not None and topology.may_be_excluded_by(pod):
                return True
            for name, _ in pod.pod_class.request:
                if name in lacking:
                    return True
            return bool(short) and any(name in short for name, _ in pod.charge or ())

        return is_useful

    def _has_devices(self, node: Node) -> bool:
        if node.facts is None or not node.facts.devices:
            return True
        return self.ranking.devices.later(node) >= 0

    def _charge(self, node: Node) -> Charge:
        return quota_charging.charge_on(self._cluster, self._pod_class, node.name)
