"""One attempt to make room for a whole gang: bundles of pods leave, domain by domain, until it has its place.

In each domain (the whole cluster, or those that its network topology allows, the closest first) bundles are
added until what is free there, is being freed, and what they leave would do for the gang by sums. Then it is
tried: everyone in the bundles has left, and the pods of the gang look for their nodes. Where that fails one
more bundle is added. Of the bundles none leaves without which the gang has its place, too. (Volcano's
gangpreempt and gangreclaim.)
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from events.union import Decision
from projections.blocked import closeness_reason
from projections.contest import is_starving
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.queues import add
from scheduling.admission import refused_demand
from scheduling.attempt import charged
from scheduling.quota.choice import CardChoice
from scheduling.quota.reclaiming import why_not_entitled
from scheduling.refuse import Reason
from scheduling.session import Session
from scheduling.topology.network import limit_of, slots_of
from scheduling.topology.where import ANYWHERE, Where, Within
from scheduling.trial import Trial
from scheduling.victims.bundles import Bundle, bundles, freed, may_go
from scheduling.victims.claim import Claim
from scheduling.victims.outcome import decisions, is_whole
from scheduling.work import BUNDLE

TRIES_MAX: Final = 32
"""How many bundles are looked at in the end that may stay after all."""

GROWTH: Final = 4
"""After a gang found no place a part of the bundles is added before it is tried again: one in so many."""


class GangSearch:
    """What came of trying to make room for a gang."""

    def __init__(self, session: Session, action: str, group: PodGroup) -> None:
        self.session = session
        self.action = action
        self.group = group
        self.trial = Trial(session.cluster, group)
        self.is_whole = False
        self.counts: Counter[str] = Counter()
        """Why domains could not be freed, and how many."""
        self._problem = ""
        self._wanted = self._missing()
        self._need: Amounts = {}
        for pod in self._wanted:
            add(self._need, pod.pod_class.request, 1)
        session.groups_examined += 1
        with self.trial:
            self._keep_promises()
            self._kept = self.trial.count
            if self._wanted and not self._is_barred():
                self._search()
        session.fair.forget_trial()

    @property
    def reason(self) -> Reason:
        """Why nobody is evicted."""
        if self._problem:
            return Reason("NotEntitled", "", self._problem)
        listed = ", ".join(f"{count} {text}" for text, count in sorted(self.counts.items()))
        message = f"no domain can be freed by {self.action}: {listed or 'none was tried'}."
        return Reason("NoVictims", "", message)

    def decisions(self) -> Iterator[Decision]:
        """Who must leave, and the room that is promised for it."""
        return decisions(self.action, self.trial)

    def _missing(self) -> list[Pod]:
        """The pods that the gang lacks; none where one of them cannot be placed or may not preempt."""
        group, policy = self.group, self.session.cluster.policy
        wanted: list[Pod] = []
        for pod in group.pending:
            if not is_starving(policy, group, len(wanted)):
                break
            pod_class = pod.pod_class
            if pod_class.is_best_effort or pod.facts.uid in group.promise:
                continue
            if refused_demand(policy, pod_class) or pod_class.never_preempts:
                self.counts["of its pods may not make others leave"] += 1
                return []
            wanted.append(pod)
        return wanted

    def _keep_promises(self) -> None:
        for pod in self.group.pending:
            held = self.group.promise.get(pod.facts.uid)
            node = None if held is None else self.session.cluster.nodes.nodes.get(held.node)
            if node is not None:
                self.trial.place(pod, node, later=True)

    @property
    def _claim(self) -> Claim:
        return Claim(
            self.session, self.action, self.trial, self._wanted[0], wanted=tuple(self._wanted)
        )

    def _is_barred(self) -> bool:
        """Whether its queue may take nothing from others."""
        claim = self._claim
        if claim.is_reclaiming:
            self._problem = why_not_entitled(claim.cluster, claim.queue, claim.asked, {})
        return bool(self._problem)

    def _search(self) -> None:
        ganging = self.session.cluster.policy.told.of_gangs(self.action)
        for where in islice(self._domains(), ganging.domains):
            if self._free(where):
                self.is_whole = True
                return
            for pod in reversed(self.trial.evicted[:]):
                self.trial.spare(pod)

    def _domains(self) -> Iterator[Where]:
        """The domains in which the whole gang may be, the closest first."""
        cluster, closeness = self.session.cluster, self.group.closeness
        if closeness is None or not closeness.is_hard:
            yield ANYWHERE
            return
        if closeness_reason(cluster.nodes.hyper, closeness) is not None:
            return
        domains = self.session.network.domains
        slots = slots_of(cluster, self.group)
        used = domains.holding(slots) if slots else None
        for step in domains.steps(limit_of(cluster, closeness), used, None):
            for domain in sorted([domains.all[one] for one in step], key=lambda one: one.name):
                yield Within(cluster.nodes, domain, None, lambda _: 0)

    def _free(self, where: Where) -> bool:
        """Whether the gang gets its place in a domain; if so, the trial says how."""
        room = self._idle(where)
        chosen: list[Bundle] = []
        enough = 0
        found = bundles(self._claim, where, self._need)
        self.session.work.add_bundles(len(found))
        for bundle in (None, *found, None):
            if bundle is not None:
                if not self._leave(bundle, chosen):
                    continue
                given = freed(self.session.cluster, chosen[-1].pods, where)
                for name in room:
                    room[name] += given.get(name, 0)
            would_do = all(room[name] >= most for name, most in self._need.items())
            if not would_do or (bundle is not None and len(chosen) < enough):
                continue
            if self._try(where):
                self._spare_some(where, chosen, room)
                return is_whole(self.trial)
            # So that not every further bundle is tried on its own: what is too much stays in the end.
            enough = len(chosen) + 1 + len(chosen) // GROWTH
        self.counts["domain(s) have too little that may be evicted"] += 1
        return False

    def _leave(self, bundle: Bundle, chosen: list[Bundle]) -> bool:
        """Let the pods of a bundle leave that are still there, if all of them may."""
        self.session.work.add(BUNDLE)
        claim = self._claim
        gone = self.trial.taken.get(bundle.group.key, [])
        left = Bundle(
            bundle.group, tuple([pod for pod in bundle.pods if pod not in gone]), bundle.is_safe
        )
        if not may_go(claim, left):
            return False
        for pod in left.pods:
            self.trial.evict(pod)
        chosen.append(left)
        return True

    def _idle(self, where: Where) -> Amounts:
        """What is free on the nodes of a domain, or will be."""
        total: Amounts = dict.fromkeys(self._need, 0)
        self.session.work.add(len(self.session.cluster.nodes.order))
        for node in self.session.cluster.nodes.order:
            if where.admits(node):
                for name in total:
                    total[name] += max(0, node.free.get(name, 0), node.future(name))
        return total

    def _try(self, where: Where) -> bool:
        """Whether the gang finds its nodes once these have left. If not, it is as if it was not tried."""
        if all(self._place(where, pod) for pod in self._wanted) and is_whole(self.trial):
            return True
        self.trial.take_back(self._kept)
        return False

    def _place(self, where: Where, pod: Pod) -> bool:
        choice = charged(self.session, self.group, pod, self.trial.extra)
        if not isinstance(choice, CardChoice):
            return False
        self.session.work.add_pod(pod.pod_class)
        ranking = self.session.rankings.of(pod.pod_class, choice.cards)
        node = where.best(ranking, pod.pod_class)
        # Where somebody leaves, if only for the quota's sake, the gang waits for that.
        is_later = node is None or bool(self.trial.evicted)
        if node is None:
            node = where.best_later(ranking)
        if node is not None:
            self.trial.place(pod, node, later=is_later)
        return node is not None

    def _spare_some(self, where: Where, chosen: list[Bundle], room: Amounts) -> None:
        """Let bundles stay without which the gang has its place, too: those far from it together, then one by
        one, those that lose most first. Bundles of a group that is broken up anyhow stay or leave together.
        """
        used = {node.name for _, node in self.trial.placed}
        broken = {one.group.key for one in chosen if not one.is_safe}
        far = [
            one
            for one in chosen
            if not any(pod.node in used for pod in one.pods)
            and not (one.is_safe and one.group.key in broken)
        ]
        self._spare(where, chosen, far, room)
        for bundle in reversed(chosen[-TRIES_MAX:]):
            if not (bundle.is_safe and bundle.group.key in broken):
                self._spare(where, chosen, [bundle], room)
        order = {pod.facts.uid: place for place, pod in enumerate(_pods(chosen))}
        for pods in self.trial.taken.values():
            pods.sort(key=lambda pod: order[pod.facts.uid])

    def _spare(self, where: Where, chosen: list[Bundle], some: list[Bundle], room: Amounts) -> None:
        """Let these stay, if the gang has its place without that. `room` is what there is with them."""
        given = freed(self.session.cluster, _pods(some), where)
        if not some or any(room[name] - given.get(name, 0) < self._need[name] for name in room):
            return
        self.trial.take_back(self._kept)
        for pod in _pods(some):
            self.trial.spare(pod)
        if self._try(where):
            for one in some:
                chosen.remove(one)
            for name in room:
                room[name] -= given.get(name, 0)
            return
        for pod in _pods(some):
            self.trial.evict(pod)
        self._try(where)


def _pods(chosen: list[Bundle]) -> list[Pod]:
    return [pod for one in chosen for pod in one.pods]
