"""A refusal stands until its cause changes, and is not told again meanwhile."""

from events.codec import event_of
from events.cycle import CycleOpened
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from tests.builders import recorded

BIG = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1, memory: 8Gi, pods: 110}}}
  - {kind: Pod, metadata: {name: big}, spec: {containers: [{resources: {requests: {cpu: 4}}}]}}
steps:
"""
SMALL = (
    "{kind: Pod, metadata: {name: small}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}"
)
QUOTA = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 64, memory: 8Gi, pods: 110}}}
  - {kind: Queue, metadata: {name: default}, spec: {capability: {cpu: 2}}}
  - {kind: Pod, metadata: {name: big}, spec: {containers: [{resources: {requests: {cpu: 4}}}]}}
steps:
"""


async def told(scenario: str) -> tuple[list[PodGroupUnschedulable], int]:
    """The refusals of a run, and how many cycles were held."""
    events = [event_of(one.record) for one in await recorded(scenario)]
    refusals = [event for event in events if isinstance(event, PodGroupUnschedulable)]
    return refusals, sum(isinstance(event, CycleOpened) for event in events)


async def test_an_event_that_frees_too_little_is_not_recorded_as_unschedulable_again() -> None:
    steps = f"""\
  - {{at: 2s, apply: [{SMALL}]}}
  - {{at: 4s, delete: [{{kind: Pod, name: small}}]}}
  - {{at: 6s, patch: [{{kind: Node, name: n1, merge: {{status: {{allocatable: {{cpu: 2}}}}}}}}]}}
"""
    refusals, cycles = await told(BIG + steps)
    assert [(one.code, one.limit) for one in refusals] == [("NotEnoughResources", "cpu")]
    assert cycles == 2, "one for each pod that came"


async def test_a_quota_raised_too_little_opens_a_cycle_and_records_nothing() -> None:
    steps = """\
  - {at: 2s, patch: [{kind: Queue, name: default, merge: {spec: {capability: {cpu: 3}}}}]}
"""
    refusals, cycles = await told(QUOTA + steps)
    assert [one.code for one in refusals] == ["InsufficientCPUQuota"]
    assert cycles == 2


async def test_another_unschedulable_reason_is_recorded() -> None:
    steps = """\
  - {at: 2s, patch: [{kind: Queue, name: default, merge: {status: {state: Closed}}}]}
"""
    refusals, _ = await told(QUOTA + steps)
    assert [one.code for one in refusals] == ["InsufficientCPUQuota", "QueueNotOpen"]


async def test_a_refusal_names_what_could_change_it() -> None:
    refusals, _ = await told(BIG.replace("steps:\n", ""))
    assert [one.requeue_on for one in refusals] == [("node-freed", "pods-changed", "node-updated")]
    refusals, _ = await told(QUOTA.replace("steps:\n", ""))
    assert [one.requeue_on for one in refusals] == [("quota/cpu",)]
    closed = (
        "  - {at: 2s, patch: [{kind: Queue, name: default, merge: {status: {state: Closed}}}]}\n"
    )
    refusals, _ = await told(QUOTA + closed)
    assert refusals[-1].requeue_on == ("queue-updated",)


async def test_a_cluster_in_which_nothing_happens_is_left_alone() -> None:
    _, cycles = await told(BIG.replace("steps:\n", "until: 600s\n"))
    assert cycles == 1
