"""Place jobs with the label `tor-affinity` by the leaf switches of the cluster.

The candidates are the nodes under a switch that have room for any of the job's pods with chips. The rules
(`generation_1.py`, `generation_2.py`) choose one node for each of these pods, all of them at once; the pods get the nodes
in the order of their ranks. Pods without chips go to any node. Nothing is evicted for such jobs. Pods that come while the job
has others, or replace some after a fault, are placed by `restart.py`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from events.decisions.reschedule import RestartedPod
from events.requeue import ROOM
from features.ascend.network_labels import (
    CLASS_LABEL,
    CLASSES,
    IS_HEALTHY,
    IS_SHARED,
    NO_CLASS,
    SHARED_ADDRESS,
)
from features.ascend.volcano_npu import NpuArguments, npu_arguments
from features.leaf_switches import generation_1, generation_2
from features.leaf_switches.index import (
    IDLE,
    SHARED,
    LeafSwitches,
    switch_map,
)
from features.leaf_switches.plan import (
    FreeSwitch,
    Plan,
    Rules,
    SwitchJob,
    beside_its_pods,
    is_large,
    single_layer,
)
from features.leaf_switches.restart import (
    WAIT_FOR_NODES,
    PlacedJob,
    Replacement,
    place_again,
    without,
)
from projections.nodes import Node, NodeTable
from projections.pod_groups import PodGroup
from projections.pod_terms import Labels
from projections.previous_nodes import PreviousNodes, previous_nodes
from projections.rescheduling import nodes_free_by
from scheduling.gang_attempt import GangAttempt
from scheduling.placement_strategy import PlacementStrategy
from scheduling.planned_nodes import (
    JobNodes,
    PlannedNodes,
    device_options,
    pods_with_devices,
)
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable

NO_MAP: Final = "job tor affinity check failed, cluster basic-tor-node-cm is not imported"
UNKNOWN_CLASS: Final = "job tor affinity label check failed,tor-affinity label value is {}"
"""Messages of the vendor's scheduler."""


class LeafSwitchPlacement(PlacementStrategy):
    """Places jobs by leaf switches."""

    name = "leaf-switches"

    def is_for(self, session: Session, group: PodGroup) -> bool:
        """Return True for groups of pods with chips that have the label, where the policy names `volcano-npu`."""
        if npu_arguments(session.cluster.plugins) is None:
            return False
        return job_class_of(group) not in ("", NO_CLASS)

    def problem(self, session: Session, group: PodGroup) -> Unschedulable | None:
        """Return what is wrong with the label, or that there is no map of switches."""
        stated = {*_classes_of(group)}
        if len(stated) > 1:
            text = f"the pods have different values of the label {CLASS_LABEL}: {', '.join(sorted(stated))}"
            return Unschedulable("InvalidArgument", CLASS_LABEL, text)
        if group.has_topology_constraint or group.sub_groups is not None:
            text = (
                f"a job with the label {CLASS_LABEL} can have no networkTopology and no sub-groups"
            )
            return Unschedulable("InvalidArgument", CLASS_LABEL, text)
        job_class = job_class_of(group)
        if job_class not in CLASSES:
            return Unschedulable("InvalidArgument", CLASS_LABEL, UNKNOWN_CLASS.format(job_class))
        if not switch_map(session.cluster).switches:
            return Unschedulable("TopologyNotReady", "SwitchMap", NO_MAP)
        return None

    def walk(self, session: Session, group: PodGroup) -> tuple[str, ...]:
        """Return the steps through the switches, first what the rules look at."""
        return () if self.problem(session, group) is not None else _job(session, group).walk()

    def place(self, session: Session, group: PodGroup) -> GangAttempt:
        """Return the attempt on the nodes of the plan; without a plan, one whose refusal says why."""
        job = _job(session, group)
        plan = job.plan()
        chosen = job.nodes_by_rank(plan)
        attempt = GangAttempt(session, group, PlannedNodes(job.pods, chosen))
        if plan.problem and attempt.reason is not None:
            attempt.reason = Unschedulable(
                "NotEnoughResources",
                "LeafSwitch",
                plan.problem_text,
                job.pods[0].key if job.pods else "",
                ROOM,
                node_helps=False if plan.problem == WAIT_FOR_NODES else None,
            )
        if attempt.is_ready:
            annotations = job.annotations(plan)
            for one in attempt.trial.now:
                if one.pod.facts.uid in chosen:
                    attempt.network[one.pod.facts.uid] = annotations[one.node.name]
        return attempt


def _job(session: Session, group: PodGroup) -> "LeafSwitchJob":
    arguments = npu_arguments(session.cluster.plugins)
    assert arguments is not None
    return LeafSwitchJob(session, group, arguments)


def rest_2(job: SwitchJob, placed: PlacedJob, pods: list[Replacement]) -> Plan:
    """Return the plan of pods of a job that has others, by the rules 2.0."""
    if job.is_padding or not placed.crosses:
        return beside_its_pods(job, placed.used)
    return generation_2.place_rest(job, placed.used, placed.others)


def rest_under_one(job: SwitchJob, placed: PlacedJob, pods: list[Replacement]) -> Plan:
    """Return the plan of pods of a job that has others, where each job is under one switch."""
    return beside_its_pods(job, placed.used)


def _replacement(index: LeafSwitches, one: RestartedPod | None) -> Replacement:
    place = None if one is None else index.places.get(one.node)
    if one is None or place is None:
        return Replacement()
    return Replacement("" if one.fault else one.node, place.position)


class Servers(Sequence[tuple[int, str]]):
    """Position and node of some slots. Most switches are only counted."""

    def __init__(
        self, table: NodeTable, positions: npt.NDArray[np.int64], slots: npt.NDArray[np.intp]
    ) -> None:
        self._table, self._positions, self._slots = table, positions, slots

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._slots)

    @overload
    def __getitem__(self, key: int) -> tuple[int, str]: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[tuple[int, str]]: ...

    def __getitem__(self, key: int | slice) -> tuple[int, str] | Sequence[tuple[int, str]]:
        """Return one of them, or some."""
        if isinstance(key, slice):
            return Servers(self._table, self._positions, self._slots[key])
        slot = int(self._slots[key])
        return int(self._positions[slot]), self._table.order[slot].name


def job_class_of(group: PodGroup) -> str:
    """Return the label of a job: of its pods with chips, else of its PodGroup; empty without one."""
    return next(iter(_classes_of(group)), "")


def _classes_of(group: PodGroup) -> list[str]:
    return list(dict.fromkeys(one.get(CLASS_LABEL, "") for one in device_options(group)))


class LeafSwitchJob:
    """A job whose pods with chips are placed by leaf switches."""

    def __init__(self, session: Session, group: PodGroup, arguments: NpuArguments) -> None:
        self._session = session
        self._group = group
        self._arguments = arguments
        self._network = switch_map(session.cluster)
        self._nodes = JobNodes(session, group)
        self.pods = pods_with_devices(group)
        """The pods that are placed, in the order in which they are."""

    def walk(self) -> tuple[str, ...]:
        """Return the steps through the switches, first what the rules look at."""
        lines = [
            f"{one.name}: {one.free} free, {one.state.text}"
            + (f" by {', '.join(one.state.crossing)}" if one.state.crossing else "")
            for one in self._free_switches()
            if one.free or one.state.crossing
        ]
        job = self._switch_job()
        first = f"{job.kind} job of {job.count} pods, {job.servers_per_switch} servers a switch"
        return (first, *lines, *self.plan().walk)

    def nodes_by_rank(self, plan: Plan) -> dict[str, Node]:
        """Return the nodes of a plan by the UIDs of the pods that get them: in the order of their ranks."""
        nodes = self._session.cluster.nodes.nodes
        # Without a plan no pod gets a node.
        pairs = zip(self._nodes.by_rank(self.pods), plan.servers, strict=False)
        return {pod.facts.uid: nodes[node] for pod, (_, node) in pairs}

    def plan(self) -> Plan:
        """Return the plan of the pods with chips of a group, without any change."""
        group = self._group
        cluster = self._session.cluster
        rules: Rules = (
            generation_2.place if self._arguments.nslb_version == "2.0" else generation_1.place
        )
        rest_rules = rest_2 if self._arguments.nslb_version == "2.0" else generation_1.place_rest
        if self._network.is_single_layer:
            rules, rest_rules = single_layer, rest_under_one
        if not self.pods:
            return Plan()
        job = self._switch_job()
        switches = self._free_switches()
        if not any(one.free for one in switches):
            return Plan()  # The nodes say why.
        index = cluster.indexes.of(LeafSwitches)
        if not (used := index.used_by(group.key)):
            return rules(job, switches)
        previous = previous_nodes(cluster, group)
        replaced = [previous.replaced.get(pod.facts.uid) for pod in self._nodes.by_rank(self.pods)]
        if self._waits_for_nodes(switches, replaced):
            return Plan().refuse(WAIT_FOR_NODES)
        plan = place_again(
            job,
            self._placed_job(switches, used, previous),
            [_replacement(index, one) for one in replaced],
            rest_rules,
        )
        if not plan.problem or index.switches_of.get(group.key):
            return plan
        # No pod of the job is left: it can be placed like a new one, for which it crosses no switches.
        walk = [*plan.walk, "placed like a new job"]
        own = [
            replace(
                one, state=index.state_of(number, self._network.switches[number], without=group.key)
            )
            if number in used
            else one
            for number, one in enumerate(switches)
        ]
        avoided = self._switch_names(previous.avoided)
        new = rules(job, without(PlacedJob([], own, crosses=False), avoided).others)
        if new.problem:
            new = rules(job, own)
        new.walk = [*walk, *new.walk]
        return new

    def annotations(self, plan: Plan) -> dict[str, Labels]:
        """Return the annotations of the pod on each node of a plan (generation 2.0). A job crosses switches with all its pods,
        also those that are placed already."""
        if self._arguments.nslb_version != "2.0" or self._network.is_single_layer:
            return {node: () for _, node in plan.servers}
        found: dict[str, Labels] = {}
        for taken in plan.taken:
            is_shared = taken.is_shared if plan.crosses else IDLE
            is_unhealthy = taken.is_unhealthy and plan.crosses
            pairs = [(IS_HEALTHY, str(int(is_unhealthy))), (IS_SHARED, str(is_shared))]
            if is_shared == SHARED:
                pairs.append((SHARED_ADDRESS, taken.switch.name))
            found.update((node, tuple(pairs)) for _, node in taken.servers)
        return found

    def _switch_job(self) -> SwitchJob:
        """Return what the rules need to know of a job."""
        return SwitchJob(
            count=len(self.pods),
            tasks=sum(count for _, count in self._group.device_tasks),
            is_large=is_large(job_class_of(self._group)),
            servers_per_switch=self._network.servers_per_switch,
            shared_limit=self._arguments.shared_switches,
        )

    def _placed_job(
        self, switches: list[FreeSwitch], used: Mapping[int, None], previous: PreviousNodes
    ) -> PlacedJob:
        """Return what a job has: its switches, and the positions of the nodes that it keeps."""
        cluster = self._session.cluster
        index = cluster.indexes.of(LeafSwitches)
        free = {node: position for number in used for position, node in switches[number].servers}
        own = [
            one.node
            for one in self._group.pods.values()
            if one.occupies and one.pod_class.asked_devices
        ]
        positions = Counter(index.places[node].position for node in own if node in index.places)
        positions.update(
            free[one.node]
            for one in previous.replaced.values()
            if not one.fault and one.node in free
        )
        at = {one.position for number in used for one in self._network.switches[number].servers}
        return PlacedJob(
            used=[switches[number] for number in sorted(used)],
            others=[one for number, one in enumerate(switches) if number not in used],
            crosses=index.crosses(self._group.key),
            positions=positions,
            all_positions=tuple(sorted(at)),
            avoided=self._switch_names(dict.fromkeys((*own, *previous.avoided))),
        )

    def _switch_names(self, nodes: Iterable[str]) -> dict[str, str]:
        """Return nodes with the names of their switches; without those under none."""
        places = self._session.cluster.indexes.of(LeafSwitches).places
        switches = self._network.switches
        return {node: switches[places[node].switch].name for node in nodes if node in places}

    def _waits_for_nodes(
        self, switches: list[FreeSwitch], replaced: list[RestartedPod | None]
    ) -> bool:
        """Return whether a job that was restarted as a whole waits for the nodes of its healthy pods."""
        cluster = self._session.cluster
        restart = cluster.reschedulings.restarts.get(self._group.key)
        if restart is None or self._session.state.now_ns >= nodes_free_by(restart):
            return False
        healthy = [one.node for one in replaced if one is not None and not one.fault]
        free = {node: None for one in switches for _, node in one.servers} if healthy else {}
        return any(node not in free and not cluster.is_closed_node(node) for node in healthy)

    def _free_switches(self) -> list[FreeSwitch]:
        """Return the switches in the order of the map, each with the nodes that have room for any of these pods."""
        cluster = self._session.cluster
        index = cluster.indexes.of(LeafSwitches)
        table = cluster.nodes
        switch_of, position_of = index.slots(table)
        slots = np.flatnonzero(self._nodes.with_room(self.pods) & (switch_of >= 0))
        # Slots are in the order of names, which is the last criterion.
        slots = slots[np.lexsort((position_of[slots], switch_of[slots]))]
        ends = np.searchsorted(switch_of[slots], np.arange(len(self._network.switches) + 1))
        return [
            FreeSwitch(
                switch.name,
                Servers(table, position_of, slots[ends[number] : ends[number + 1]]),
                index.state_of(number, switch),
            )
            for number, switch in enumerate(self._network.switches)
        ]
