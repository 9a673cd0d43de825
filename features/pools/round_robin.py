"""The decider `round_robin`: one task after the other, each to the job that holds the fewest slots. Nothing is preempted."""

import heapq

from features.pools.outcome import PassResult, Start, is_feasible, no_placement
from features.pools.tasks import PoolTasks
from features.pools.working_nodes import WorkingNodes


def round_robin_pass(nodes: WorkingNodes, tasks: PoolTasks) -> PassResult:
    """Return the decisions of one pass (determined 3.8)."""
    result = PassResult()
    capacity = nodes.capacity.slots
    heap: list[tuple[int, tuple[int, str, str], str]] = []
    queued = {}
    for job in tasks.jobs.values():
        feasible = [one for one in job.queued if is_feasible(nodes, result, one, capacity)]
        if feasible:
            queued[job.key] = feasible[::-1]
            held = sum(one.slots for one in job.running)
            heapq.heappush(heap, (held, (job.submitted_ns, job.name, job.key), job.key))
    failed: set[object] = set()
    while heap:
        held, age, key = heapq.heappop(heap)
        left = queued[key]
        while left:
            task = left.pop()
            reserved = None if task.likeness in failed else nodes.place(task)
            if reserved is not None:
                result.starts.append(Start(reserved))
                if left:
                    heapq.heappush(heap, (held + task.slots, age, key))
                break
            failed.add(task.likeness)
            no_placement(nodes, result, task)
    return result
