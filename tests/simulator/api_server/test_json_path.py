"""The paths of printer columns find what they name."""

import pytest

from events.normalize import Json, JsonObject
from simulator.api_server.json_path import first_result

QUEUE: JsonObject = {
    "metadata": {"labels": {"team/a.b": "red"}},
    "spec": {"weights": [3, 5]},
    "status": {
        "state": "Open",
        "conditions": [
            {"type": "Synced", "status": "False"},
            {"type": "Ready", "status": "True"},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".status.state", "Open"),
        (".status.missing.state", None),
        (".status.state.deeper", None),
        (".spec.weights", [3, 5]),
        (".spec.weights[1]", 5),
        (".spec.weights[-1]", 5),
        (".spec.weights[2]", None),
        (".spec.weights[*]", 3),
        (r".metadata.labels.team/a\.b", "red"),
        (".metadata.labels['team/a.b']", "red"),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.type=='Gone')].status", None),
        (".status.conditions[*].type", "Synced"),
        (".status[?", None),
    ],
)
def test_a_path_gives_its_first_result(path: str, value: Json) -> None:
    assert first_result(path, QUEUE) == value
