"""Pods of one gang that share a volume which one node at a time can use: a node with room for all of them is chosen before
the first is placed."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from projections.nodes import Node
from projections.pod_class import Amounts, PodClass
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.volumes.claim_users import ClaimUsers
from scheduling.group_trial import GroupTrial
from scheduling.session import Session
from scheduling.volumes.claim_check import VolumeLookup


def keep_together(
    session: Session, trial: GroupTrial, inside: npt.NDArray[np.bool_] | None = None
) -> None:
    """Choose, for each such volume that no pod uses yet, the best node (among those `inside`) with room for all pods of
    the group that share it; else one with room for as many as the gang needs. Without such a node each pod is placed for
    itself. The choice lasts as long as the trial in which the pods are placed."""
    if any(one.claims for one in trial.group.classes.values()):
        lookup = VolumeLookup(session.cluster)
        if lookup.rules.pins:
            _SharedClaims(session, trial, lookup).keep_together(inside)


def _counts(group: PodGroup, sharing: int) -> Iterator[int]:
    """Yield for how many of the pods there should be room: all of them, else as many as the gang needs."""
    yield sharing
    others = len(group.pending) - sharing
    needed = group.observed.min_available - group.counts.ready - others
    if 1 < needed < sharing:
        yield needed


def _classes(pods: list[Pod]) -> list[PodClass]:
    return list({pod.pod_class.index: pod.pod_class for pod in pods}.values())


class _SharedClaims:
    """The claims that several waiting pods of the group of a trial share."""

    def __init__(self, session: Session, trial: GroupTrial, lookup: VolumeLookup) -> None:
        self._session, self._cluster = session, session.cluster
        self._trial, self._group = trial, trial.group
        self._lookup = lookup

    def keep_together(self, inside: npt.NDArray[np.bool_] | None) -> None:
        """Choose a node for each such volume."""
        for claim, pods in self._shared().items():
            for count in _counts(self._group, len(pods)):
                if (node := self._home(pods[:count], inside)) is not None:
                    self._trial.keep_claim(claim, node)
                    break

    def _shared(self) -> Mapping[str, list[Pod]]:
        """Return the claims, used by no pod yet, of which several waiting pods of the group must share one node."""
        users, found = self._cluster.indexes.of(ClaimUsers).pods, dict[str, list[Pod]]()
        for pod in self._group.pending:
            for name in dict.fromkeys(one.claim for one in pod.pod_class.claims):
                if not users.get(name):
                    found.setdefault(name, []).append(pod)
        return {name: pods for name, pods in found.items() if len(pods) > 1 and self._limits(name)}

    def _limits(self, name: str) -> bool:
        """Return whether one node at a time can use the volume of a claim."""
        lookup = self._lookup
        claim = lookup.claim(name)
        volume = None if claim is None or not claim.is_bound else lookup.volume(claim.volume)
        return claim is not None and volume is not None and lookup.is_single_node(claim, volume)

    def _home(self, pods: list[Pod], inside: npt.NDArray[np.bool_] | None) -> Node | None:
        session = self._session
        table = session.cluster.nodes
        quota = session.cluster.plugins.quota
        known, job = session.rankings, session.rankings.job_of(self._group)
        rankings = [
            known.of(one, quota.named_cards(session.cluster, one), job) for one in _classes(pods)
        ]
        total: Amounts = {}
        for pod in pods:
            for name, amount in pod.pod_class.request:
                total[name] = total.get(name, 0) + amount
        scores = rankings[0].scores().copy()
        for one in rankings[1:]:
            scores[one.scores() < 0] = -1
        if inside is not None:
            scores[~inside] = -1
        for name, amount in total.items():
            column = table.column(name)
            if column is None:
                return None
            scores[column < amount] = -1
        if not len(scores) or scores[best := int(scores.argmax())] < 0:
            return None
        return table.order[best]
