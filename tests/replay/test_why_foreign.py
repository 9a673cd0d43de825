"""Why: of a pod group of another scheduler it is said that it is one, and nothing else."""

from projections.state import State
from replay.queue_answer import FOREIGN, queue_answer
from replay.why import Inquiry
from tests.builders import recorded

CLUSTER = """\
cluster:
  - {kind: Queue, metadata: {name: q1}, spec: {capability: {cpu: 4}}}
  - {kind: PodGroup, metadata: {name: theirs}, spec: {minMember: 1, queue: q1}}
  - kind: Pod
    metadata: {name: p, annotations: {scheduling.k8s.io/group-name: theirs}}
    spec: {schedulerName: elsewhere, containers: [{resources: {requests: {cpu: 4}}}]}
"""


async def state_of(subject: str) -> tuple[State, str, bool]:
    """State, what is said of a subject, and whether it is said to wait for something."""
    inquiry = Inquiry(subject)
    for one in await recorded(CLUSTER):
        inquiry.take(one.record, one.content)
    answer = inquiry.answer()
    return inquiry.state, answer.state, answer.waiting is not None


async def test_a_group_of_another_scheduler_waits_for_nothing_here() -> None:
    state, said, waits = await state_of("theirs")
    assert (
        said == "Pending; it belongs to another scheduler: muster neither schedules nor updates it"
    )
    assert not waits
    answer = queue_answer(state.cluster, state.cluster.queues["q1"])
    assert (answer.pod_groups, answer.line) == ({FOREIGN: 1}, ())
