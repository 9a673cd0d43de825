"""The faults of nodes and of single pods as a log shows them, each from the record that showed it to the one that showed it gone.

A fault of a pod alone (it failed, its kubelet or a recovery controller says that it is faulty) belongs to the node on which
the pod is.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from events.amount_text import SHARES
from events.decisions.reschedule import RestartedPod
from features.faults.job_faults import job_ranks
from projections.cluster import Cluster
from projections.fault_hits import is_hit, pods_hit
from projections.faulty_pods import FaultyPods, PodFault
from projections.node_faults import SUB_HEALTH, NodeFault
from projections.pods import Pod
from projections.state import State

OWN_SOURCES: Final = ("kubelet", "pod", "label")
"""Sources of faults of pods that are not faults of their node."""

_COUNTS_CARDS: Final = re.compile(r"[^/]+/(gpu|npu|tpu|gaudi|neuron|mig-[^/]+|Ascend[^/]+)")
"""Resources that count accelerators, of any vendor."""

HITS_MAX: Final = 5000
"""Pods that a fault hits and that are kept, as many as the largest gang has."""


class Hit(Struct):
    """A pod that a fault hit."""

    pod: str
    uid: str
    pod_group: str
    node: str
    rank: int
    cards: dict[str, int]
    devices: tuple[str, ...]
    since_ns: int


class TrackedFault(Struct, eq=False):
    """A fault of a node, or of one pod."""

    node: str
    fault: NodeFault
    position: int
    at_ns: int
    uid: str = ""
    """UID of the pod that is faulty itself; empty for a fault of the node."""
    pod: str = ""
    is_earlier: bool = False
    """Whether it stood before the first record: since when is not known."""
    cleared_position: int = 0
    cleared_ns: int = 0
    hits: dict[str, Hit] = field(default_factory=dict)
    hit_count: int = 0

    @property
    def name(self) -> str:
        """Return `NODE/DEVICE@POSITION`, or `NODE@POSITION`."""
        return f"{self.place}@{self.position}"

    @property
    def place(self) -> str:
        """Return `NODE/DEVICE`, or `NODE`."""
        return f"{self.node}/{self.fault.device}" if self.fault.device else self.node

    @property
    def is_sub_health(self) -> bool:
        """Return whether pods go on with it, with less health."""
        return self.fault.effect == SUB_HEALTH

    @property
    def text(self) -> str:
        """Return the fault for people."""
        return f"pod {self.pod}: {self.fault.level}" if self.pod else self.fault.text

    def add_hit(self, state: State, uid: str, at_ns: int) -> Hit | None:
        """Add a pod that it hits; None if it is known."""
        pod = state.cluster.pods.get(uid)
        if pod is None or uid in self.hits:
            return None
        self.hit_count += 1
        rank = job_ranks(state, [pod]).get(uid, -1)
        cards = cards_of_pod(state.cluster, pod)
        hit = Hit(pod.key, uid, pod.group_key, pod.node, rank, cards, pod.devices, at_ns)
        if len(self.hits) < HITS_MAX:
            self.hits[uid] = hit
        return hit

    def add_earlier_hit(self, state: State, pod_group: str, one: RestartedPod) -> None:
        """Add a pod that it hit before the first record of the log, as a decision names it. Its cards are known while it is there."""
        if self.add_hit(state, one.uid, self.at_ns) is None and one.uid not in self.hits:
            self.hit_count += 1
            self.hits[one.uid] = Hit(
                one.pod, one.uid, pod_group, one.node, one.rank, {}, (), self.at_ns
            )


class FaultChange(Struct):
    """A fault that is new, or that hits more pods."""

    fault: TrackedFault
    is_new: bool
    hits: list[Hit] = field(default_factory=list)


class FaultTracker:
    """The faults that stand, updated after each record."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.of_nodes: dict[str, dict[NodeFault, TrackedFault]] = {}
        self.of_pods: dict[str, TrackedFault] = {}
        """UID of a pod to its own fault."""

    def begin(self, at_ns: int) -> list[FaultChange]:
        """Add the faults that stand in a State that is not empty, and return them. When they were first seen is not known:
        before `at_ns`."""
        cluster, position = self.state.cluster, self.state.position
        index = cluster.indexes.of(FaultyPods)
        found: list[FaultChange] = []
        for node, faults in sorted(index.nodes.items()):
            self.of_nodes[node] = known = {
                one: TrackedFault(node, one, position, at_ns, is_earlier=True) for one in faults
            }
            for fault, tracked in known.items():
                hits = pods_hit(cluster, node, fault)
                found.append(self._begun(tracked, hits, at_ns))
        for uid, one in sorted(index.pods.items()):
            if one.source in OWN_SOURCES:
                own = self.of_pods[uid] = _own_fault(cluster.pods[uid], one, position, at_ns)
                own.is_earlier = True
                found.append(self._begun(own, [uid], at_ns))
        return found

    def _begun(self, fault: TrackedFault, uids: list[str], at_ns: int) -> FaultChange:
        hits = [fault.add_hit(self.state, uid, at_ns) for uid in uids]
        return FaultChange(fault, is_new=True, hits=[one for one in hits if one is not None])

    def update_nodes(
        self, names: Iterable[str], position: int, at_ns: int
    ) -> tuple[list[FaultChange], list[TrackedFault]]:
        """Return the faults of nodes that are new, and those that are gone."""
        raised: list[FaultChange] = []
        cleared: list[TrackedFault] = []
        index = self.state.cluster.indexes.of(FaultyPods)
        for name in names:
            now = dict.fromkeys(index.faults_of(name))
            known = self.of_nodes.get(name, {})
            gone = [one for one in known if one not in now]
            cleared += [_clear(known.pop(one), position, at_ns) for one in gone]
            for fault in now:
                if fault not in known:
                    known[fault] = TrackedFault(name, fault, position, at_ns)
                    raised.append(FaultChange(known[fault], is_new=True))
            if known:
                self.of_nodes[name] = known
            else:
                self.of_nodes.pop(name, None)
        for one in raised:
            tracked = one.fault
            for uid in pods_hit(self.state.cluster, tracked.node, tracked.fault):
                hit = tracked.add_hit(self.state, uid, at_ns)
                one.hits += [] if hit is None else [hit]
        return raised, cleared

    def update_pods(
        self, uids: Iterable[str], position: int, at_ns: int
    ) -> tuple[list[FaultChange], list[TrackedFault]]:
        """Return faults of pods that are new, or that faults of nodes hit now, and those that are gone."""
        cluster, index = self.state.cluster, self.state.cluster.indexes.of(FaultyPods)
        raised: dict[int, FaultChange] = {}
        cleared: list[TrackedFault] = []
        for uid in uids:
            found, own, pod = index.pods.get(uid), self.of_pods.get(uid), cluster.pods.get(uid)
            is_own = found is not None and found.source in OWN_SOURCES
            if own is not None and (found is None or not is_own or own.fault.level != found.text):
                cleared.append(_clear(self.of_pods.pop(uid), position, at_ns))
                own = None
            if found is None or pod is None:
                continue
            if is_own and own is None:
                own = self.of_pods[uid] = _own_fault(pod, found, position, at_ns)
                raised[id(own)] = FaultChange(own, is_new=True)
            for one in self.standing(pod.node, uid, found.kind, found.device, found.source):
                hit = one.add_hit(self.state, uid, at_ns)
                if hit is not None:
                    change = raised.setdefault(id(one), FaultChange(one, is_new=False))
                    change.hits.append(hit)
        return list(raised.values()), cleared

    def standing(
        self, node: str, uid: str, kind: str, device: str, source: str
    ) -> list[TrackedFault]:
        """Return the faults that make a pod faulty with this kind, device and source."""
        own = self.of_pods.get(uid)
        if own is not None:
            return [own]
        known = self.of_nodes.get(node, {})
        return [one for fault, one in known.items() if is_hit(fault, kind, device, source)]


def _own_fault(pod: Pod, found: PodFault, position: int, at_ns: int) -> TrackedFault:
    """Return the fault of a pod that is not one of its node."""
    fault = NodeFault(found.source, found.device, found.text, "", found.kind)
    return TrackedFault(pod.node, fault, position, at_ns, pod.facts.uid, pod.key)


def _clear(one: TrackedFault, position: int, at_ns: int) -> TrackedFault:
    one.cleared_position, one.cleared_ns = position, at_ns
    return one


def cards_of_pod(cluster: Cluster, pod: Pod) -> dict[str, int]:
    """Return the cards that a pod has on its node, by name; shared ones in thousandths.

    Cards of nodes without a label of their product count under the name of their resource.
    """
    node = cluster.nodes.nodes.get(pod.node)
    there = {} if node is None or node.facts is None else node.facts.charged_cards
    found: dict[str, int] = {}
    for resource, amount in pod.pod_class.request:
        known = cluster.cards.by_resource.get(resource)
        if known and amount:
            card = there.get(resource) or next(iter(known))
            found[card] = found.get(card, 0) + cluster.cards.charged(resource, card, amount)
        elif amount and _COUNTS_CARDS.fullmatch(resource):
            found[resource] = found.get(resource, 0) + amount
    return found


def card_thousandths(cards: dict[str, int]) -> int:
    """Return the number of cards, in thousandths."""
    return sum(amount if name.endswith(SHARES) else amount * 1000 for name, amount in cards.items())


def sum_cards(many: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of cards, by name."""
    found: dict[str, int] = {}
    for cards in many:
        for name, amount in cards.items():
            found[name] = found.get(name, 0) + amount
    return found
