"""`muster why Queue/x` names who changed the quota last, from what to what, and when."""

from pathlib import Path

import pytest

from events.json_value import Json
from tests.daemon.cli.builders import documents, muster
from tests.daemon.object_log import write_object_log

START_NS = 1_769_850_001_000_000_000


def queue(cpu: int, state: str, manager: str, subresource: str = "") -> Json:
    managed: Json = [
        {
            "manager": manager,
            "operation": "Update",
            "time": f"2026-01-31T09:3{cpu}:00Z",
            **({"subresource": subresource} if subresource else {}),
        }
    ]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {
            "name": "ls",
            "uid": "u1",
            "managedFields": managed,
            "annotations": {"volcano.sh/card.quota": f'{{"H200": {cpu * 2}}}'},
        },
        "spec": {"capability": {"cpu": cpu}},
        "status": {"state": state},
    }


SHOWN: tuple[Json, ...] = (
    queue(8, "Open", "alice"),
    queue(4, "Open", "bob"),
    queue(4, "Closing", "volcano-controllers", "status"),
    queue(4, "Closed", "volcano-controllers", "status"),
    None,  # Deleted.
    queue(2, "Open", "carol"),
)


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A queue that bob lowers, whose status changes then, that is deleted and created again."""
    return await write_object_log(tmp_path / "log.db", "Queue//ls", SHOWN, START_NS)


def change_at(log: Path, position: int) -> dict[str, object]:
    (document,) = documents(
        muster("why", "Queue/ls", "--log", log, "--at", str(position), "-o", "json")
    )
    change = document["quota_change"]
    assert isinstance(change, dict)
    return change


def test_who_lowered_the_quota_is_told_although_the_status_changed_since(log: Path) -> None:
    for position in (2, 3, 4):
        change = change_at(log, position)
        assert (change["position"], change["manager"]) == (2, "bob (Update)")
        assert change["fields"] == [
            {
                "field": "metadata.annotations.volcano.sh/card.quota",
                "before": '{"H200": 16}',
                "after": '{"H200": 8}',
            },
            {"field": "spec.capability.cpu", "before": "8", "after": "4"},
        ]
    text = muster("why", "Queue/ls", "--log", log, "--at", "4").stdout
    assert (
        "quota changed last at position 2 (2026-01-31T09:00:02.000Z), by bob (Update) at 2026-01-31T09:34:00Z:\n"
        in text
    )
    assert "  spec.capability.cpu: 8 -> 4\n" in text


def test_the_first_quota_and_that_of_a_queue_created_again_have_nothing_before(log: Path) -> None:
    for position, manager in ((1, "alice (Update)"), (6, "carol (Update)")):
        change = change_at(log, position)
        assert (change["position"], change["what"], change["manager"]) == (
            *(position, "seen"),
            manager,
        )
    assert (
        "quota as first seen at position 1"
        in muster("why", "Queue/ls", "--log", log, "--at", "1").stdout
    )


def test_a_bundle_without_an_index_says_the_same(log: Path) -> None:
    bundle = log.with_suffix(".muster")
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    assert change_at(bundle, 4) == change_at(log, 4)
