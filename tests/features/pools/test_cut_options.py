"""What a job states beyond a bound is an error of the job alone, recorded once, and explained."""

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from features.table import FEATURES
from projections.config_errors import OPTION_CUT
from projections.session_priority import PRIORITY_CUT
from projections.snapshot import restore, take
from replay.job_list import pool_answers
from scheduling.decide import Decider
from tests.scheduling.builders import EngineHarness, node, pod, raw

CARD = "example.com/card"


def recorded(harness: EngineHarness, code: str) -> list[tuple[str, str]]:
    """Subject and message of the errors with a code that were recorded since this was last asked."""
    events = [event_of(one) for one in harness.records]
    harness.records = []
    return [
        (one.subject, one.message)
        for one in events
        if isinstance(one, ConfigInvalid) and one.code == code
    ]


def begun(decider: str, **bounds: object) -> EngineHarness:
    """An engine with one pool of four slots."""
    pool = {"name": "p", "decider": decider, "slots": [CARD], **bounds}
    harness = EngineHarness(policy={"pools": [pool]})
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    harness.cycle()
    return harness


def stating(name: str = "a", **options: str) -> ObjectSeen:
    """A waiting pod that asks for more than there is, and states options."""
    annotations = {f"muster.sh/{key.replace('_', '-')}": value for key, value in options.items()}
    return ObjectSeen(pod(name, cards=5, metadata={"annotations": annotations}))


def test_each_cut_is_recorded_once_and_again_when_it_changes() -> None:
    harness = begun("priority", priorityMax=60)
    seen = stating(
        priority="99",
        queue_position="-1",
        submitted_at="1999-01-01T00:00:00Z",
        preemption_timeout="5h",
    )
    harness.see(seen)
    harness.cycle()
    found = recorded(harness, OPTION_CUT)
    assert [message.partition(":")[0] for _, message in found] == [
        "muster.sh/queue-position",
        "muster.sh/submitted-at",
        "muster.sh/preemption-timeout",
        "priority 99 (muster.sh/priority) is more important than priorityMax of pool p",
    ]
    assert {subject for subject, _ in found} == {"PodGroup/default/podgroup-uid-a"}
    harness.cycle()
    assert recorded(harness, OPTION_CUT) == []
    harness.see(stating(priority="70"))
    harness.cycle()
    [(_, message)] = recorded(harness, OPTION_CUT)
    assert message.endswith("60 counts")
    harness.see(stating(priority="60"))
    harness.cycle()
    assert recorded(harness, OPTION_CUT) == []
    harness.state.validate()


def test_why_and_the_list_of_jobs_say_what_counts_instead() -> None:
    harness = begun("priority", priorityMax=60)
    harness.see(stating(priority="99", queue_position="-1"))
    harness.cycle()
    group = harness.state.cluster.groups["default/podgroup-uid-a"]
    waiting = Decider(harness.state).explain(group).waiting
    assert waiting is not None
    texts = [one.text for one in waiting.hurdles]
    assert any("the policy does not permit a queue position" in one for one in texts)
    assert any("priorityMax of pool p: 60 counts" in one for one in texts)
    [answer] = pool_answers(harness.state)
    [job] = answer.jobs
    assert (job.priority, job.sources["priority"]) == (60, "cut to a bound")
    assert job.sources["position"] == "cut to a bound"
    assert job.sources["weight"] == "default"
    assert len(job.problems) == 2


def test_what_an_operator_sets_is_named_as_such() -> None:
    harness = begun("priority", priorityMax=60)
    name = "default.podgroup-uid-a"
    spec = {
        "namespace": "default",
        "name": "podgroup-uid-a",
        "uid": "uid-a",
        "priority": 80,
        "position": "7",
    }
    harness.see(stating(priority="99"))
    harness.see(ObjectSeen(raw("GroupOverride", name, spec=spec, apiVersion="muster.sh/v1alpha1")))
    harness.cycle()
    [job] = pool_answers(harness.state)[0].jobs
    assert (job.priority, job.priority_source) == (80, "an operator")
    assert (job.sources["priority"], job.sources["position"]) == ("operator", "operator")
    group = harness.state.cluster.groups["default/podgroup-uid-a"]
    waiting = Decider(harness.state).explain(group).waiting
    assert waiting is not None
    assert "set by an operator: priority 80, position 7" in [one.text for one in waiting.hurdles]
    assert (
        restore(take(harness.state), FEATURES).cluster.groups["default/podgroup-uid-a"].priority
        == group.priority
    )
    harness.state.validate()


def test_a_priority_of_a_session_queue_is_cut_and_recorded_once() -> None:
    policy: dict[str, object] = {
        "actions": "enqueue, allocate",
        "queues": [{"name": "default", "priorityMax": 10}],
    }
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", node("n1"))
    harness.show_all("PriorityClass", raw("PriorityClass", "high", value=1000))
    harness.show_all(
        "PodGroup", raw("PodGroup", "g", spec={"minMember": 1, "priorityClassName": "high"})
    )
    harness.show_the_rest()
    harness.cycle()
    assert recorded(harness, PRIORITY_CUT) == [
        (
            "PodGroup/default/g",
            "priority 1000 of PriorityClass high is above priorityMax of queue default: 10 counts",
        )
    ]
    assert harness.state.cluster.groups["default/g"].priority == 10
    twin = restore(take(harness.state), FEATURES)
    twin.validate()
    assert twin.cluster.groups["default/g"].observed.stated_priority == 1000
    harness.see(ObjectSeen(raw("PriorityClass", "high", value=7)))
    harness.cycle()
    assert recorded(harness, PRIORITY_CUT) == []
    assert harness.state.cluster.groups["default/g"].priority == 7
    assert "PodGroup/default/g" not in harness.state.cluster.config_errors.current


def test_a_restored_state_knows_which_groups_an_operator_has_put_into_a_closed_pool() -> None:
    pool = {"name": "p", "decider": "priority", "slots": [CARD], "namespaces": ["other"]}
    harness = EngineHarness(policy={"pools": [pool]})
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    spec = {"namespace": "default", "name": "podgroup-uid-a", "uid": "uid-a", "pool": "p"}
    name = "default.podgroup-uid-a"
    harness.see(stating())
    harness.see(ObjectSeen(raw("GroupOverride", name, spec=spec, apiVersion="muster.sh/v1alpha1")))
    harness.cycle()
    assert harness.state.cluster.groups["default/podgroup-uid-a"].denied is None
    restored = restore(take(harness.state), FEATURES)
    restored.validate()
    assert restored.cluster.groups["default/podgroup-uid-a"].denied is None
