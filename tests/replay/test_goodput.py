"""Goodput of a run, reckoned by hand: what worked, what was lost since the last checkpoint, what has to be done again."""

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from events.duration import SECOND
from features.table import FEATURES
from projections.state import State
from replay.goodput import Goodput, GoodputTotals
from simulator.scenario import parse_scenario

GANG = """
scenario: a gang of two pods of eight cards each, on three nodes
until: 1000s
start_delay: 10s
policy:
  actions: "enqueue, reschedule, allocate"
  configurations:
    - {name: reschedule, arguments: {mode: force, conditions: [Broken]}}
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H100}}
    status:
      capacity: {nvidia.com/gpu: 8}
      allocatable: {nvidia.com/gpu: 8}
    count: 3
  - apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {name: train}
    spec:
      minAvailable: MINIMUM
      tasks:
        - name: worker
          replicas: 2
          template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}}
steps:
"""

CHECKPOINT_NS = 100 * SECOND
BEGAN = 11
"""Second at which the pods run: the group is admitted and bound, and pods take 10 s to start."""


async def goodput_of(steps: str, minimum: int = 2, arguments: str = "") -> Goodput:
    """The goodput of the gang after 1,000 s."""
    text = GANG.replace("MINIMUM", str(minimum)).replace("mode: force", "mode: force" + arguments)
    log = MemoryLog()
    await simulate(parse_scenario(f"{text}  {steps}", "goodput.yaml"), log, with_views=False)
    state = State(FEATURES)
    goodput = Goodput(state, 0, CHECKPOINT_NS)
    batch = now_ns = 0
    async for entries in log.read():
        for entry in entries:
            if entry.record.batch != batch:
                goodput.settle(now_ns)
                state.cluster.clear_changed_rows()
                batch = entry.record.batch
            now_ns = entry.record.recorded_at_ns
            event = event_of(entry.record)
            goodput.add(entry.record, event, entry.content)
            state.apply(entry.record, event, entry.content)
            state.settle()
    goodput.settle(now_ns)
    goodput.finish(1000 * SECOND)
    return goodput


def seconds(goodput: Goodput) -> GoodputTotals:
    """The figures of the gang in card-seconds."""
    (totals,) = goodput.groups.values()
    return GoodputTotals(totals.worked // SECOND, totals.redone // SECOND, totals.interruptions)


async def test_a_gang_works_from_when_all_its_pods_run() -> None:
    goodput = await goodput_of("[]")
    assert seconds(goodput) == GoodputTotals(16 * (1000 - BEGAN), 0, 0)
    assert goodput.card_ns == 24 * 1000 * SECOND


async def test_a_gang_that_is_moved_loses_its_work_since_the_last_checkpoint() -> None:
    goodput = await goodput_of("- {at: 500s, fail: [{node: n1, condition: Broken}]}")
    again = 500 + 1 + 10
    assert seconds(goodput) == GoodputTotals(
        worked=16 * (500 - BEGAN + 1000 - again), redone=16 * ((500 - BEGAN) % 100), interruptions=1
    )
    (totals,) = goodput.groups.values()
    assert totals.useful == totals.worked - totals.redone
    assert goodput.card_ns == 24 * 1000 * SECOND, "a broken node has cards, too"


async def test_a_fault_after_which_the_pods_go_on_costs_its_time() -> None:
    steps = "- {at: 500s, fail: [{node: n1, condition: Broken, for: 20s}]}"
    goodput = await goodput_of(steps, arguments=", tolerance: 60s")
    assert seconds(goodput) == GoodputTotals(16 * (1000 - BEGAN - 20), 0, 0)


async def test_a_container_that_is_started_again_costs_a_gang_its_work() -> None:
    steps = "- {at: 532s, fail: [{node: n1, device: nvidia.com/gpu, exit_code: 1, detected_after: 20s, for: 10s}]}"
    goodput = await goodput_of(steps)
    assert seconds(goodput) == GoodputTotals(16 * (1000 - BEGAN), 16 * ((532 - BEGAN) % 100), 1)


async def test_pods_that_need_no_others_lose_no_work_of_others() -> None:
    steps = "- {at: 532s, delete: [{kind: Pod, name: train-worker-0}]}"
    alone = seconds(await goodput_of(steps, minimum=1))
    assert (alone.redone, alone.interruptions) == (0, 0)
    gang = seconds(await goodput_of(steps))
    assert (gang.redone, gang.interruptions) == (16 * ((532 - BEGAN) % 100), 1)
