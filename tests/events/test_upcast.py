"""A kind of record that another one has replaced is read as that one: in a log, and in a base."""

from pathlib import Path

import pytest
from msgspec import structs

from daemon.first_state import state_at_base
from daemon.log.bundle_log import BundleLog
from daemon.log.memory import MemoryLog
from daemon.queries.bundles import export_stretch
from daemon.queries.replay import replay_log
from daemon.simulation import simulate
from events import codec, upcast
from events.codec import decode, encode
from events.cycle import CycleOpened
from events.errors import NewerRecordError
from events.json_value import JsonObject
from events.standing.log import CycleStands
from events.standing.standing import Standing
from projections.base import base_table
from projections.base.contributor import BaseFold, Contributor, Stand
from projections.base.log import LOG
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.projections.bases import differences

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")


class CycleStandsLater(Standing, frozen=True, kw_only=True):
    """The last cycle, with another name of its time, and what it was opened for."""

    kind = "cycle_stands.v2"

    position: int
    opened_ns: int
    reason: str


def raised(body: JsonObject) -> tuple[str, JsonObject]:
    """Make the second kind of the first."""
    return CycleStandsLater.kind, {
        "position": body["position"],
        "opened_ns": body["at_ns"],
        "reason": "unknown",
    }


def apply_later(fold: BaseFold, stand: Stand, content: bytes | None) -> None:
    """Apply the second kind."""
    event = stand.event
    assert isinstance(event, CycleStandsLater)
    assert event.reason == "unknown"
    before = CycleStands(position=event.position, at_ns=event.opened_ns)
    LOG.apply(fold, structs.replace(stand, event=before), content)


async def test_a_base_with_the_first_kind_is_read_by_a_release_with_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MemoryLog()
    await simulate(parse_scenario(SCENARIO, "test"), source, with_views=False)
    await export_stretch(source, tmp_path / "a.muster", first=50)
    log = BundleLog(tmp_path / "a.muster")
    before = await state_at_base(log)
    assert before is not None
    left = tuple(one for one in LOG.kinds if one is not CycleStands)
    later = Contributor(kinds=(CycleStandsLater,), pieces=lambda _: iter(()), apply=apply_later)
    contributors = (structs.replace(LOG, kinds=left), later, *base_table.CONTRIBUTORS[1:])
    monkeypatch.setattr(base_table, "CONTRIBUTORS", contributors)
    with pytest.raises(NewerRecordError, match=r"cycle_stands\.v1 is not known"):
        await state_at_base(log)

    monkeypatch.setitem(upcast.UPCASTS, CycleStands.kind, raised)
    after = await state_at_base(log)

    assert after is not None
    assert differences(before, after) == []
    assert (await replay_log(log)).divergence is None


def test_several_steps_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    event = CycleOpened(at_ns=5, policy=1, decider=13)
    body = encode(event).replace(b'"at_ns"', b'"at_seconds"')
    monkeypatch.setitem(
        upcast.UPCASTS, "opened.v1", lambda one: ("opened.v2", {**one, "at_ns": one["at_seconds"]})
    )
    with pytest.raises(NewerRecordError):
        decode("opened.v1", body, position=1)

    def without_seconds(one: JsonObject) -> tuple[str, JsonObject]:
        return CycleOpened.kind, {key: value for key, value in one.items() if key != "at_seconds"}

    monkeypatch.setitem(upcast.UPCASTS, "opened.v2", without_seconds)
    assert decode("opened.v1", body, position=1) == event
    assert "opened.v1" not in codec.KINDS
