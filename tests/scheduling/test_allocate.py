"""Allocate: what becomes of a line when a decision takes its head out of it."""

import pytest

from events.codec import event_of
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from tests.builders import recorded

WITHOUT_ENQUEUE = """\
policy:
  actions: "allocate"
  tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity-card}]}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 110}}}
  - kind: Pod
    metadata: {name: "a-{i}"}
    spec: {containers: [{resources: {limits: {cpu: 5}}}]}
    count: 3
until: 3s
"""

NOMINATED = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 110}}}
  - kind: Pod
    metadata: {name: leaving, deletionTimestamp: "1970-01-01T01:00:00Z"}
    spec: {nodeName: n1, containers: [{resources: {limits: {cpu: 4}}}]}
    status: {phase: Running}
  - kind: Pod
    metadata: {name: "a-{i}"}
    spec: {containers: [{resources: {limits: {cpu: 4}}}]}
    count: COUNT
steps:
  - {at: 3s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}
until: 6s
"""


async def test_without_enqueue_each_group_is_admitted_and_refused_for_itself() -> None:
    decided = [one.record for one in await recorded(WITHOUT_ENQUEUE) if one.record.cycle]
    kinds = [record.kind.partition(".")[0] for record in decided]
    assert kinds == ["cycle_opened", *["enqueue_decided", "pod_group_unschedulable"] * 3]
    refusals = [
        event for one in decided if isinstance(event := event_of(one), PodGroupUnschedulable)
    ]
    assert [one.pod for one in refusals] == ["default/a-1", "default/a-2", "default/a-3"]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_nomination_that_no_longer_fits_is_withdrawn_and_the_group_refused(
    count: int,
) -> None:
    entries = await recorded(NOMINATED.replace("COUNT", str(count)))
    events = [event_of(one.record) for one in entries]
    at = next(i for i, event in enumerate(events) if isinstance(event, PipelineWithdrawn))
    withdrawn, refused = events[at : at + 2]
    assert isinstance(withdrawn, PipelineWithdrawn)
    assert isinstance(refused, PodGroupUnschedulable)
    assert (refused.pod_group, refused.code) == (withdrawn.pod_group, "NotEnoughResources")
