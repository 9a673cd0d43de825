"""Options of jobs that have no effect in their pool are configuration errors in the log."""

import pytest

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from features.pools.job_options import USED_OPTIONS
from features.table import FEATURES
from projections.config_errors import UNUSED_OPTION
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

CARD = "example.com/card"
GROUP = {"scheduling.k8s.io/group-name": "g"}
OPTIONS = ("priority", "weight", "max-slots", "queue-position")


def pools(*deciders: str) -> dict[str, object]:
    """A policy with a pool of each decider, named after it; the first has the nodes."""
    return {
        "pools": [
            {
                "name": one,
                "decider": one,
                "slots": [CARD],
                **({"nodeSelector": {"p": one}} if index else {}),
            }
            for index, one in enumerate(deciders)
        ],
        "defaultComputePool": deciders[0],
    }


def begun(policy: dict[str, object], *raws: bytes) -> EngineHarness:
    """Return an engine that has seen pods and had a cycle."""
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", *raws)
    harness.show_the_rest()
    harness.cycle()
    return harness


def group(**stated: str) -> bytes:
    """A PodGroup that states options."""
    annotations = {f"muster.sh/{key.replace('_', '-')}": value for key, value in stated.items()}
    return raw("PodGroup", "g", metadata={"annotations": annotations}, spec={"minMember": 1})


def member(**stated: str) -> bytes:
    """A pod of the pod group."""
    annotations = {f"muster.sh/{key.replace('_', '-')}": value for key, value in stated.items()}
    return pod("a", cards=1, metadata={"annotations": {**GROUP, **annotations}})


def reported(harness: EngineHarness) -> list[str]:
    """Return the keys of the options without effect that were recorded since this was last asked."""
    events = [event_of(one) for one in harness.records]
    harness.records = []
    return [
        f"{one.subject} {one.message.partition(' ')[0].removeprefix('muster.sh/')}"
        for one in events
        if isinstance(one, ConfigInvalid) and one.code == UNUSED_OPTION
    ]


@pytest.mark.parametrize("decider", ["priority", "fair_share", "round_robin"])
def test_each_option_without_effect_is_recorded_once(decider: str) -> None:
    stated = dict.fromkeys((one.replace("-", "_") for one in OPTIONS), "5")
    harness = begun(pools(decider), member(**stated))
    used = [one.removeprefix("muster.sh/") for one in USED_OPTIONS[decider]]
    expected = [f"PodGroup/default/g {one}" for one in OPTIONS if one not in used]
    assert reported(harness) == expected
    harness.see(ObjectSeen(member(**stated, job="j")))
    harness.cycle()
    assert reported(harness) == []


def test_the_options_of_a_session_pool_beside_others_are_recorded() -> None:
    harness = begun(pools("session", "priority"), member(priority="5"))
    assert reported(harness) == ["PodGroup/default/g priority"]


def test_without_pools_options_are_not_read() -> None:
    harness = begun({"actions": "allocate"}, member(priority="5", weight="2"))
    assert reported(harness) == []


def test_an_option_of_a_pod_group_is_recorded_and_forgotten_with_it() -> None:
    harness = begun(pools("priority"), member())
    harness.see(ObjectSeen(group(weight="2")))
    harness.cycle()
    assert reported(harness) == ["PodGroup/default/g weight"]
    assert take(restore(take(harness.state), FEATURES)) == take(harness.state)
    harness.see(gone(group(weight="2")))
    errors = harness.state.cluster.config_errors
    assert errors.current == {}


def test_the_pods_of_a_deleted_pod_group_still_have_their_options() -> None:
    harness = begun(pools("priority"), member(weight="2"))
    assert reported(harness) == ["PodGroup/default/g weight"]
    harness.see(ObjectSeen(group()))
    harness.see(gone(group()))
    harness.cycle()
    current = harness.state.cluster.config_errors.current
    assert [code for code, _ in current["PodGroup/default/g"]] == [UNUSED_OPTION]
    harness.see(gone(member(weight="2")))
    assert harness.state.cluster.config_errors.current == {}


def test_a_job_that_is_moved_and_a_policy_that_changes_are_looked_at_again() -> None:
    harness = begun(pools("priority", "fair_share"), member(weight="2"))
    assert reported(harness) == ["PodGroup/default/g weight"]
    harness.see(ObjectSeen(member(weight="2", pool="fair_share")))
    harness.cycle()
    assert harness.state.cluster.config_errors.current == {}
    assert reported(harness) == []
    harness.change_policy(
        {
            "pools": [
                {
                    "name": "fair_share",
                    "decider": "priority",
                    "slots": [CARD],
                    "replaces": ["priority"],
                }
            ]
        }
    )
    harness.cycle()
    assert reported(harness) == ["PodGroup/default/g weight"]
    harness.change_policy({"pools": [{"name": "fair_share"}]})
    assert harness.state.cluster.config_errors.current == {}


def test_the_position_that_determined_writes_on_all_its_pods_is_no_error() -> None:
    metadata = {"labels": {"determined-queue-position": "5"}}
    harness = begun(pools("fair_share"), pod("a", cards=1, metadata=metadata))
    assert reported(harness) == []
