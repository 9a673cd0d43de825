"""Events to bytes and back, whatever they hold; newer and damaged ones raise different errors."""

from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codec import KINDS, decode, encode
from events.decision import Eviction, Placement
from events.decisions.reschedule import RestartedPod
from events.decisions.search_deferred import FreedNode, SearchCursor
from events.decisions.work_deferred import DeferredAction
from events.errors import NewerRecordError, UnreadableRecordError
from events.field_manager import FieldChange
from events.record import Fact
from events.union import EVENTS, Event

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS: st.SearchStrategy[object] = st.text(max_size=20)
FIELDS: dict[object, st.SearchStrategy[object]] = {
    str: TEXTS,
    int: NUMBERS,
    bool: st.booleans(),
    tuple[str, ...]: st.lists(TEXTS, max_size=3).map(tuple),
    dict[str, str]: st.dictionaries(TEXTS, TEXTS, max_size=3),
    dict[str, int]: st.dictionaries(TEXTS, NUMBERS, max_size=3),
    msgspec.Raw: st.sampled_from([b"{}", b'{"actions":"allocate"}', b"[1]"]).map(msgspec.Raw),
}
FIELDS[tuple[Eviction, ...]] = st.lists(
    st.builds(Eviction, pod=TEXTS, uid=TEXTS, node=TEXTS), max_size=3
).map(tuple)
FIELDS[tuple[Placement, ...]] = st.lists(
    st.builds(
        Placement,
        pod=TEXTS,
        uid=TEXTS,
        node=TEXTS,
        cards=FIELDS[dict[str, int]],
        devices=FIELDS[tuple[str, ...]],
    ),
    max_size=3,
).map(tuple)


FIELDS[tuple[DeferredAction, ...]] = st.lists(
    st.builds(
        DeferredAction,
        action=TEXTS,
        queue=TEXTS,
        pod_group=TEXTS,
        lines=NUMBERS,
        looked=FIELDS[tuple[str, ...]],
    ),
    max_size=3,
).map(tuple)


FIELDS[tuple[RestartedPod, ...]] = st.lists(
    st.builds(
        RestartedPod, pod=TEXTS, uid=TEXTS, node=TEXTS, rank=NUMBERS, fault=TEXTS, detail=TEXTS
    ),
    max_size=3,
).map(tuple)
FIELDS[FieldChange | None] = st.none() | st.builds(
    FieldChange, manager=TEXTS, operation=TEXTS, time=TEXTS, subresource=TEXTS
)
FIELDS[bool | None] = st.none() | st.booleans()
FIELDS[tuple[FreedNode, ...]] = st.lists(
    st.builds(FreedNode, node=TEXTS, pods=NUMBERS), max_size=3
).map(tuple)
FIELDS[tuple[SearchCursor, ...]] = st.lists(
    st.builds(SearchCursor, pod=TEXTS, node=TEXTS, placed=NUMBERS), max_size=3
).map(tuple)


def test_a_value_can_be_made_for_each_field_of_each_event() -> None:
    hints = {hint for kind in EVENTS for hint in _hints(kind).values()}
    assert hints <= FIELDS.keys()


def _hints(kind: type[Fact]) -> dict[str, object]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


@st.composite
def events(draw: st.DrawFn) -> Fact:
    """Any event that there is."""
    kind: type[Fact] = draw(st.sampled_from(EVENTS))
    fields = {name: draw(FIELDS[hint]) for name, hint in _hints(kind).items()}
    return kind(**fields)


@given(events())
def test_an_event_is_read_back_as_it_was_written(event: Event) -> None:
    body = encode(event)
    found = decode(event.kind, body, position=1)
    assert encode(found) == body
    assert type(found) is type(event)
    if not any(isinstance(getattr(event, name), msgspec.Raw) for name in event.__struct_fields__):
        assert found == event


def test_every_kind_is_named_with_its_version_and_once() -> None:
    kinds = [event.kind for event in EVENTS]
    assert len(set(kinds)) == len(kinds)
    assert all(kind.rpartition(".v")[2].isdecimal() for kind in kinds)
    assert set(kinds) == KINDS


def test_keys_are_written_in_one_order() -> None:
    one = Placement(pod="a", uid="b", node="c", cards={"B": 1, "A": 2})
    other = Placement(pod="a", uid="b", node="c", cards={"A": 2, "B": 1})
    encoder = msgspec.json.Encoder(order="deterministic")
    assert encoder.encode(one) == encoder.encode(other)


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("pod_teleported.v1", b"{}", NewerRecordError),
        ("cycle_opened.v3", b"{}", NewerRecordError),
        ("cycle_opened.v2", b'{"at_ns":7,"policy":2,"decider":1,"more":1}', UnreadableRecordError),
        ("cycle_opened.v2", b'{"at_ns":7', UnreadableRecordError),
        ("cycle_opened.v2", b'{"at_ns":"7","policy":2,"decider":1}', UnreadableRecordError),
        ("cycle_opened.v1", b"{}", NewerRecordError),
        ("cycle_opened.v2", b"[]", UnreadableRecordError),
        ("pod_bound.v1", b"\xff", UnreadableRecordError),
    ],
)
def test_what_cannot_be_read_names_its_position(
    kind: str, body: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error, match="position 41"):
        decode(kind, body, position=41)
