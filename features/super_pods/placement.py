"""Place jobs with chips of A3 SuperPods in logical SuperPoDs.

A job is cut into blocks of `sp-block` chips, by the ranks of its pods; each block is on nodes of one SuperPoD
(`selection.py`). A job of one pod goes to one of the nodes on which the fewest chips are free, as a block of one node. Nothing is
evicted for such jobs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from events.decisions.reschedule import RestartedPod
from events.limits import whole_number
from events.requeue import ROOM
from features.ascend.network_labels import CLASS_LABEL
from features.ascend.pod_annotations import is_of_super_pod
from features.ascend.product_choice import SP_BLOCK, SUPER_POD_AFFINITY
from features.ascend.volcano_npu import NpuArguments, npu_arguments
from features.super_pods.index import SUPER_POD_ID, SUPER_POD_RANK, SuperPods
from features.super_pods.pieces import MissingPod, Pieces, place_in_pieces
from features.super_pods.restart import (
    NOT_FROM_ORIGIN,
    WAIT_FOR_NODES,
    in_order,
    lacks_nodes,
    previous_ranks,
    rebuild_block,
    return_blocks,
)
from features.super_pods.selection import Block, BlockJob, FreeSuperPod, Selection, select
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pod_ranks import pod_ranks, stated_rank
from projections.pod_terms import Labels
from projections.pods import Pod
from projections.previous_nodes import previous_nodes, ranks_before
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

SOFT: Final = "soft"
NOT_ENOUGH_NODES: Final = "not enough node, npuTaskNum: {}, nodes: {}"
"""Messages of the vendor's scheduler."""


class SuperPodPlacement(PlacementStrategy):
    """Places jobs in logical SuperPoDs."""

    name = "super-pods"

    def is_for(self, session: Session, group: PodGroup) -> bool:
        """Return True for jobs of A3 SuperPods, where the policy names `volcano-npu`."""
        if npu_arguments(session.cluster.plugins) is None:
            return False
        asking = [one for one in group.classes.values() if one.asked_devices]
        stated = dict(() if group.observed.facts is None else group.observed.facts.device_options)
        return any(is_of_super_pod(one, {**stated, **dict(one.device_options)}) for one in asking)

    def problem(self, session: Session, group: PodGroup) -> Unschedulable | None:
        """Return which other demands contradict a placement in SuperPoDs."""
        options = device_options(group)
        text = ""
        if any(CLASS_LABEL in one and one[CLASS_LABEL] != "null" for one in options):
            text = f"a job of SuperPoDs cannot be placed by leaf switches ({CLASS_LABEL})"
        elif group.has_topology_constraint or group.sub_groups is not None:
            text = "a job of SuperPoDs can have no networkTopology and no sub-groups"
        return Unschedulable("InvalidArgument", SP_BLOCK, text) if text else None

    def walk(self, session: Session, group: PodGroup) -> tuple[str, ...]:
        """Return which SuperPoD gives which block."""
        arguments = npu_arguments(session.cluster.plugins)
        if arguments is None or not pods_with_devices(group):
            return ()
        return SuperPodJob(session, group, arguments).walk()

    def place(self, session: Session, group: PodGroup) -> GangAttempt:
        """Return the attempt on the nodes of the selected blocks; without any, one whose refusal says why."""
        arguments = npu_arguments(session.cluster.plugins)
        assert arguments is not None
        job = SuperPodJob(session, group, arguments)
        chosen, network, problem = job.choose()
        attempt = GangAttempt(session, group, PlannedNodes(job.pods, chosen))
        if problem and attempt.reason is not None:
            key = job.pods[0].key if job.pods else ""
            attempt.reason = Unschedulable(
                "NotEnoughResources",
                "SuperPoD",
                problem,
                key,
                ROOM,
                node_helps=False if problem == WAIT_FOR_NODES else None,
            )
        if attempt.is_ready:
            attempt.network.update(network)
        return attempt


_Chosen = tuple[dict[str, Node], dict[str, Labels], str]
"""UID of a pod to its node, UID to its annotations, and why there are none."""


def _with_nodes(free: list[FreeSuperPod], nodes: list[list[str]]) -> list[FreeSuperPod]:
    """Return SuperPoDs with some of their nodes; without those of which none is given."""
    pairs = zip(free, nodes, strict=True)
    return [FreeSuperPod(one.number, names) for one, names in pairs if names]


def _piece(pod: Pod) -> int:
    """Return the logical SuperPoD of a pod that is placed, by the annotation that it got; 0 without one."""
    given = dict(pod.network_annotations)
    return whole_number(given.get(SUPER_POD_RANK)) or 0


def _nearest_piece(known: Mapping[int, tuple[int, int]], rank: int) -> int:
    """Return the piece of a rank: its own if it is known, else that of the nearest rank below, else above it."""
    nearest = min(known, key=lambda one: (one > rank, abs(one - rank)), default=None)
    return 0 if nearest is None else known[nearest][0]


def _healthy_first(names: list[str], worse: Mapping[str, None]) -> list[str]:
    return sorted(names, key=lambda one: one in worse) if worse else names


def _fill(
    home: FreeSuperPod, before: list[RestartedPod | None], old: Mapping[int, RestartedPod]
) -> tuple[str, ...]:
    """Take nodes of a SuperPoD for pods of a block that replace others: a healthy one gets its own node."""
    own = [
        one.node if one is not None and not one.fault and one.node in home.nodes else ""
        for one in before
    ]
    rest = in_order(home.nodes, old, own) if old else list(home.nodes)
    taken = tuple([name or rest.pop(0) for name in own])
    home.nodes = [name for name in home.nodes if name not in taken]
    return taken


def _the_rest(
    job: BlockJob, free: list[FreeSuperPod], blocks: list[Block], missing: list[int]
) -> Selection:
    """Return the selection of a whole job of which some blocks have nodes: the missing ones are placed like new ones."""
    found = Selection()
    if missing:
        rest = BlockJob(len(missing), job.block_nodes, job.reserve, job.is_soft, job.order)
        for one in free:
            one.size = one.free
        found = select(rest, free, missing)
    if not found.problem:
        found.blocks = sorted([*blocks, *found.blocks], key=lambda one: one.number)
    return found


def _annotations(number: int, super_pod: int) -> Labels:
    return ((SUPER_POD_ID, str(super_pod)), (SUPER_POD_RANK, str(number)))


class SuperPodJob:
    """A job whose pods with devices are placed in logical SuperPoDs."""

    def __init__(self, session: Session, group: PodGroup, arguments: NpuArguments) -> None:
        self._session = session
        self._group = group
        self._arguments = arguments
        self._nodes = JobNodes(session, group)
        self._tasks = sum(count for _, count in group.device_tasks)
        self.pods = pods_with_devices(group)
        """The pods that are placed, in the order in which they are."""

    def choose(self) -> _Chosen:
        """Choose a node for each pod."""
        return self._standalone() if self._tasks == 1 else self._distributed()

    def walk(self) -> tuple[str, ...]:
        """Return which SuperPoD gives which block."""
        group, pods, tasks = self._group, self.pods, self._tasks
        if tasks == 1:
            job, free = self._standalone_job(), self._standalone_super_pods(pods[0])
        else:
            job, free = self._block_job(), self._free_super_pods(pods)
        sizes = ", ".join(f"{one.number}: {one.size}" for one in free)
        first = (
            f"{job.blocks} logical SuperPoDs of {job.block_nodes} nodes, {job.reserve} nodes reserved in each "
            f"SuperPoD, order {job.order}"
        )
        has_others = any(
            one.occupies and one.pod_class.asked_devices for one in group.pods.values()
        )
        restarts = self._session.cluster.reschedulings.restarts
        if has_others or (tasks > 1 and group.key in restarts):
            return (first, "the rest of the job goes to the SuperPoDs of its blocks")
        return (first, f"free nodes by SuperPoD: {sizes}", *select(job, free).walk)

    def _standalone(self) -> _Chosen:
        """Choose the SuperPoD of a job of one pod like that of a block of one node, of the nodes with the fewest free chips; of
        those in it, the one with the highest score."""
        if not self.pods:
            return {}, {}, ""
        (pod,) = self.pods
        free = self._standalone_super_pods(pod)
        if not free:
            return {}, {}, ""
        sizes = {one.number: one.nodes for one in free}
        found = select(self._standalone_job(), [replace(one) for one in free])
        if found.problem:
            return {}, {}, found.problem
        number = found.blocks[0].super_pod
        scores, nodes = (
            self._nodes.ranking_of(pod.pod_class).scores(),
            self._session.cluster.nodes.nodes,
        )
        best = max(
            (nodes[name] for name in sizes[number]),
            key=lambda node: (scores[node.slot], -node.slot),
        )
        uid = pod.facts.uid
        return {uid: best}, {uid: _annotations(0, number)}, ""

    def _standalone_job(self) -> BlockJob:
        """Return a job of one pod: a block of one node."""
        return BlockJob(1, 1, self._arguments.reserve_nodes, order=self._arguments.super_pod_order)

    def _standalone_super_pods(self, pod: Pod) -> list[FreeSuperPod]:
        """Return the SuperPoDs with the nodes that a job of one pod may get: those with the fewest free chips; sub-healthy ones,
        and after a fault those that it should avoid, only if there are no others."""
        cluster = self._session.cluster
        free, nodes = self._free_super_pods([pod]), cluster.nodes.nodes
        worse = cluster.indexes.of(SuperPods).sub_healthy
        for bad in (worse, previous_nodes(cluster, self._group).avoided):
            better = [[name for name in one.nodes if name not in bad] for one in free]
            free = _with_nodes(free, better) or free
        resource = next(name for name, _ in pod.pod_class.request if name.startswith("huawei.com/"))
        chips = {name: nodes[name].free.get(resource, 0) for one in free for name in one.nodes}
        least = min(chips.values(), default=0)
        return _with_nodes(
            free, [[name for name in one.nodes if chips[name] == least] for one in free]
        )

    def _distributed(self) -> _Chosen:
        """Choose a node for each pod: blocks by rank."""
        group, pods = self._group, self.pods
        cluster = self._session.cluster
        job = self._block_job()
        free = self._free_super_pods(pods)
        nodes = sum(one.free for one in free)
        if nodes < len(pods):
            return {}, {}, NOT_ENOUGH_NODES.format(len(pods), nodes)
        placed = [
            one for one in group.pods.values() if one.occupies and one.pod_class.asked_devices
        ]
        restart = cluster.reschedulings.restarts.get(group.key)
        old = previous_ranks(restart)
        if restart is not None:
            avoided = previous_nodes(cluster, group).avoided
            for one in free:
                one.nodes.sort(key=lambda name: name in avoided)
        if job.is_soft and (placed or old):
            return self._soft_rest(job, placed, free)
        if placed:
            return self._beside(job, placed, free, old)
        if restart is None or not old:
            return self._by_rank(self._nodes.by_rank(pods), select(job, free))
        waits = self._session.state.now_ns < nodes_free_by(restart)
        super_pods = cluster.indexes.of(SuperPods).of
        returned = return_blocks(cluster.is_closed_node, job, old, super_pods, free, waits=waits)
        if returned.problem:
            return {}, {}, returned.problem
        found = _the_rest(job, free, returned.blocks, returned.missing)
        return self._by_rank(self._nodes.by_rank(pods), found)

    def _soft_rest(self, job: BlockJob, placed: list[Pod], free: list[FreeSuperPod]) -> _Chosen:
        """Choose nodes for pods of a job in parts of blocks that has others, or had them before a fault."""
        cluster = self._session.cluster
        restart = cluster.reschedulings.restarts.get(self._group.key)
        replaced = previous_nodes(cluster, self._group).replaced
        healthy = {uid: one.node for uid, one in replaced.items() if not one.fault}
        if restart is not None and self._session.state.now_ns < nodes_free_by(restart):
            is_free = {name: None for one in free for name in one.nodes}
            if lacks_nodes(cluster.is_closed_node, healthy.values(), is_free):
                return {}, {}, WAIT_FOR_NODES
        ranks, super_pods = self._ranks([*placed, *self.pods]), cluster.indexes.of(SuperPods).of
        networks = {} if restart is None else restart.networks
        known = {
            ranks[pod.facts.uid]: (_piece(pod), super_pods.get(pod.node, -1)) for pod in placed
        }
        for uid, one in sorted(replaced.items(), key=lambda pair: bool(pair[1].fault)):
            stated = whole_number(dict(networks.get(one.uid, ())).get(SUPER_POD_RANK))
            if stated is not None:
                known.setdefault(ranks.get(uid, one.rank), (stated, super_pods.get(one.node, -1)))
        pieces = Pieces(
            homes={piece: home for piece, home in reversed(known.values()) if home >= 0},
            present={_piece(pod): None for pod in placed},
            is_whole=not placed,
        )
        ordered = sorted(self.pods, key=lambda pod: ranks[pod.facts.uid])
        missing = [
            MissingPod(
                pod.facts.uid,
                _nearest_piece(known, ranks[pod.facts.uid]),
                healthy.get(pod.facts.uid, ""),
            )
            for pod in ordered
        ]
        found = place_in_pieces(job, missing, pieces, free)
        if isinstance(found, str):
            return {}, {}, found
        nodes = cluster.nodes.nodes
        chosen = {uid: nodes[one.node] for uid, one in found.items()}
        return (
            chosen,
            {uid: _annotations(one.piece, one.super_pod) for uid, one in found.items()},
            "",
        )

    def _beside(
        self,
        job: BlockJob,
        placed: list[Pod],
        free: list[FreeSuperPod],
        old: Mapping[int, RestartedPod],
    ) -> _Chosen:
        """Place the remaining pods of a job: those of a block that has placed pods in the SuperPoD of these, others in blocks of
        their own."""
        pods = self.pods
        ranks = self._ranks([*placed, *pods])
        ordered = sorted([*placed, *pods], key=lambda pod: ranks[pod.facts.uid])
        waiting = {pod.facts.uid: None for pod in pods}
        super_pods = self._session.cluster.indexes.of(SuperPods).of
        by_number = {one.number: one for one in free}
        blocks: list[Block] = []
        missing: list[int] = []
        of_block: dict[int, list[Pod]] = {}
        for index, pod in enumerate(ordered):
            # Ranks of a job count from 0; while a lost pod does not exist yet, its rank is missing.
            rank = ranks[pod.facts.uid] if ranks[pod.facts.uid] >= 0 else index
            of_block.setdefault(rank // job.block_nodes, []).append(pod)
        for number, members in of_block.items():
            left = [pod for pod in members if pod.facts.uid in waiting]
            there = [pod.node for pod in members if pod.facts.uid not in waiting]
            if not there:
                before = [old.get(number * job.block_nodes + at) for at in range(job.block_nodes)]
                block = rebuild_block(number, before, old, super_pods, by_number)
                if block is None:
                    missing.append(number)
                else:
                    blocks.append(block)
                continue
            home = by_number.get(super_pods.get(there[0], -1))
            if left and (home is None or home.free < len(left)):
                return {}, {}, NOT_FROM_ORIGIN
            if left and home is not None:
                taken = _fill(home, [old.get(ranks[pod.facts.uid]) for pod in left], old)
                blocks.append(Block(number, home.number, taken))
        found = _the_rest(job, free, blocks, missing)
        if found.problem:
            return {}, {}, found.problem
        return self._by_rank([pod for pod in ordered if pod.facts.uid in waiting], found)

    def _block_job(self) -> BlockJob:
        """Return the blocks of a job whose validation has passed: `sp-block` is a multiple of the chips of a node."""
        chips = (
            max((count for _, count in self.pods[0].pod_class.asked_devices), default=1)
            if self.pods
            else 1
        )
        options = device_options(self._group)[0]
        block = whole_number(options.get(SP_BLOCK)) or chips * self._tasks
        nodes = max(1, block // chips)
        return BlockJob(
            blocks=max(1, self._tasks // nodes),
            block_nodes=nodes,
            reserve=self._arguments.reserve_nodes,
            is_soft=options.get(SUPER_POD_AFFINITY) == SOFT,
            order=self._arguments.super_pod_order,
        )

    def _free_super_pods(self, pods: list[Pod]) -> list[FreeSuperPod]:
        """Return the SuperPoDs with nodes that have room for any of these pods; their nodes by name, sub-healthy ones last."""
        if not pods:
            return []
        table = self._session.cluster.nodes
        super_pods = self._session.cluster.indexes.of(SuperPods)
        number_of, worse = super_pods.slots(table), super_pods.sub_healthy
        slots = np.flatnonzero(self._nodes.with_room(pods) & (number_of >= 0))
        # Slots are in the order of names.
        slots = slots[np.argsort(number_of[slots], kind="stable")]
        numbers, begins = np.unique(number_of[slots], return_index=True)
        parts = np.split(slots, begins[1:])
        return [
            FreeSuperPod(number, _healthy_first([table.order[slot].name for slot in part], worse))
            for number, part in zip(numbers.tolist(), parts, strict=False)
        ]

    def _by_rank(self, ordered: list[Pod], found: Selection) -> _Chosen:
        """Give the nodes of the blocks, in the order of their logical ids, to pods in the order of their ranks."""
        nodes = self._session.cluster.nodes.nodes
        places = [(block, name) for block in found.blocks for name in block.nodes]
        chosen: dict[str, Node] = {}
        network: dict[str, Labels] = {}
        for pod, (block, name) in zip(ordered, places, strict=False):
            chosen[pod.facts.uid] = nodes[name]
            network[pod.facts.uid] = _annotations(block.number, block.super_pod)
        return chosen, network, found.problem

    def _ranks(self, pods: list[Pod]) -> Mapping[str, int]:
        session = self._session
        decided = session.state.assignments.ranks
        waiting = [pod.facts.uid for pod in pods if not pod.node]
        return {
            **{pod.facts.uid: decided.get(pod.facts.uid, stated_rank(pod)) for pod in pods},
            **pod_ranks(
                session.cluster, decided, waiting, ranks_before(session.cluster, self._group)
            ),
        }
