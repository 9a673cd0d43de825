"""What leaf switches are is written when it changes, and only then."""

import json

import pytest

from engine.pending_requests import StatusUpdates
from events.messages import (
    Accepted,
    Answer,
    ConfigMapRequest,
    ObjectSeen,
    OutcomeUnknown,
    Rejected,
    Reply,
)
from features.leaf_switches.switch_states import SwitchStates
from tests.properties.test_leaf_switches import NODES, Network
from tests.scheduling.builders import EngineHarness


def asked(harness: EngineHarness) -> list[ConfigMapRequest]:
    updates = StatusUpdates(harness.state)
    found = [one for one in updates.requests() if isinstance(one, ConfigMapRequest)]
    assert bool(found) <= updates.are_left(updates_status=True)
    return [one for one in found if one.name == "tor-share-cm"]


def answer(harness: EngineHarness, request: ConfigMapRequest, reply: Reply) -> None:
    harness.engine.report([Answer(request, reply)], harness.now_ns)


def test_switches_with_their_jobs_are_written_as_the_documents_have_it() -> None:
    network = Network("2.0", 2)
    network.take("job", 4, "large-model-schema")
    (request,) = asked(network.harness)
    assert (request.namespace, request.name) == ("volcano-system", "tor-share-cm")
    found = json.loads(request.data["global-tor-info"])
    assert [*found] == [f"switch-{number}" for number in range(4)]
    assert found["switch-0"] == {
        "IsHealthy": 0,
        "IsSharedTor": 2,
        "nodes": [
            {"NodeIp": f"10.0.0.{number}", "NodeName": f"n{number}", "JobName": ["j0"]}
            for number in range(3)
        ],
    }
    assert found["switch-1"]["IsSharedTor"] == 1
    assert found["switch-3"] == {"IsHealthy": 0, "IsSharedTor": 0, "nodes": []}


@pytest.mark.parametrize(
    ("reply", "is_asked_again"),
    [
        (Accepted(), False),
        (Rejected("Forbidden", "no"), False),
        (OutcomeUnknown("no answer"), True),
    ],
)
def test_it_is_written_again_when_it_changes(reply: Reply, is_asked_again: bool) -> None:
    network = Network("2.0", 2)
    network.take("job", 4, "large-model-schema")
    (request,) = asked(network.harness)
    answer(network.harness, request, reply)
    assert bool(asked(network.harness)) == is_asked_again
    # A pod that begins to run changes nothing of it, a job that ends does.
    network.harness.see(*map(ObjectSeen, network.objects("j0")))
    assert bool(asked(network.harness)) == is_asked_again
    network.take("end", 0, "")
    (request,) = asked(network.harness)
    assert json.loads(request.data["global-tor-info"])["switch-0"] == {
        "IsHealthy": 0,
        "IsSharedTor": 0,
        "nodes": [],
    }


def test_rules_of_the_first_generation_write_nothing() -> None:
    network = Network("1.0", 2)
    network.take("job", 4, "large-model-schema")
    assert asked(network.harness) == []


def test_a_text_that_is_too_long_has_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network("2.0", 2)
    network.take("job", 4, "large-model-schema")
    monkeypatch.setattr("features.leaf_switches.switch_states.BYTES_MAX", 300)
    found = json.loads(SwitchStates().text(network.harness.state.cluster))
    assert found["switch-0"] == {"IsHealthy": 0, "IsSharedTor": 2}
    assert len(NODES) == 12
