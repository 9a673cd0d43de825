"""Series, summaries and budgets of Events (rules K11.1 to K11.3)."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cluster.acting import correlation
from daemon.cluster.acting.correlation import (
    BURST,
    COMBINED,
    COMBINED_PREFIX,
    REFILL_NS,
    SERIES_NS,
    SIMILAR_MAX,
    SIMILAR_NS,
    Correlator,
    Write,
    cut,
)
from daemon.cluster.acting.k8s_events import EventNotice, Regarding

AT_NS = 1_763_712_900_000_042_999
POD = Regarding("Pod", "a", "u1", "default")


def notice(
    action: str = "NotEnoughResources", note: str = "m", regarding: Regarding = POD
) -> EventNotice:
    return EventNotice(regarding, "Warning", "FailedScheduling", action, note)


def document(write: Write | None) -> dict[str, object]:
    assert write is not None
    return msgspec.json.decode(write.body, type=dict[str, object])


def test_an_event_has_all_that_is_required_and_six_digits_of_time_k11_1() -> None:
    write = Correlator("host-1").write(notice(), AT_NS)
    assert write is not None
    assert write.is_new
    assert document(write) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": write.name, "namespace": "default"},
        "eventTime": "2025-11-21T08:15:00.000042Z",
        "reportingController": "muster.sh/scheduler",
        "reportingInstance": "host-1",
        "action": "NotEnoughResources",
        "reason": "FailedScheduling",
        "type": "Warning",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "uid": "u1",
            "namespace": "default",
        },
        "note": "m",
    }


def test_events_of_objects_without_a_namespace_are_in_default_k11_1() -> None:
    write = Correlator("h").write(notice(regarding=Regarding("Node", "n1", "u")), AT_NS)
    assert write is not None
    assert write.namespace == "default"
    assert document(write)["metadata"] == {"name": write.name, "namespace": "default"}
    assert "namespace" not in str(document(write)["regarding"])


def test_texts_and_notes_are_cut_on_the_border_of_a_character_k11_1() -> None:
    long = EventNotice(POD, "Warning", "R" * 200, "ä" * 100, "é" * 1000)
    event = document(Correlator("host" * 100).write(long, AT_NS))
    for key in ("action", "reason", "reportingInstance"):
        text = str(event[key])
        assert len(text.encode()) <= 128
        assert text.endswith("…")
    assert len(str(event["note"]).encode()) <= 1024
    assert event["note"] == "é" * 510 + "…"


@given(st.text(st.characters(codec=None)), st.integers(3, 40))
def test_a_cut_text_is_short_and_begins_like_the_whole(text: str, most: int) -> None:
    whole = text.encode(errors="replace").decode()
    short = cut(text, most)
    assert len(short.encode()) <= most
    assert short == whole or whole.startswith(short.removesuffix("…"))


def test_every_event_has_a_name_of_its_own_that_the_server_takes_k11_1() -> None:
    correlator = Correlator("h")
    objects = [Regarding("Pod", "x" * 253, str(one), "default") for one in range(9)]
    writes = [correlator.write(notice(regarding=one), AT_NS) for one in objects]
    names = {one.name for one in writes if one}
    assert len(names) == 9
    assert all(len(name) <= 253 for name in names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) for name in names)


def test_the_same_within_six_minutes_becomes_a_series_and_later_a_new_event_k11_2() -> None:
    correlator = Correlator("h")
    first = correlator.write(notice(), AT_NS)
    second = correlator.write(notice(note="other numbers"), AT_NS + 1)
    third = correlator.write(notice(), AT_NS + SERIES_NS + 1)
    later = correlator.write(notice(), AT_NS + 2 * SERIES_NS + 2)
    assert first
    assert second
    assert third
    assert later
    assert (second.name, second.is_new) == (first.name, False)
    assert document(second) == {
        "series": {"count": 2, "lastObservedTime": "2025-11-21T08:15:00.000043Z"}
    }
    assert document(third)["series"] == {
        "count": 3,
        "lastObservedTime": "2025-11-21T08:21:00.000043Z",
    }
    assert later.is_new
    assert later.name != first.name


@pytest.mark.parametrize(
    "other",
    [
        notice(action="Other"),
        notice(regarding=Regarding("Pod", "a", "u2", "default")),
        EventNotice(POD, "Normal", "FailedScheduling", "NotEnoughResources", "m"),
        EventNotice(POD, "Warning", "Other", "NotEnoughResources", "m"),
    ],
)
def test_what_is_not_the_same_is_an_event_of_its_own_k11_2(other: EventNotice) -> None:
    correlator = Correlator("h")
    correlator.write(notice(), AT_NS)
    write = correlator.write(other, AT_NS)
    assert write is not None
    assert write.is_new


def test_ten_similar_ones_in_ten_minutes_are_summarized_k11_3() -> None:
    correlator = Correlator("h")
    for index in range(SIMILAR_MAX - 1):
        write = correlator.write(notice(action=f"Code{index}"), AT_NS)
        assert document(write)["action"] == f"Code{index}"
    summary = correlator.write(notice(action="Another"), AT_NS)
    assert summary is not None
    assert document(summary)["action"] == COMBINED
    assert str(document(summary)["note"]) == f"{COMBINED_PREFIX}m"
    more = correlator.write(notice(action="YetAnother"), AT_NS)
    assert more is not None
    assert (more.name, more.is_new) == (summary.name, False)
    known = correlator.write(notice(action="Code0"), AT_NS)
    assert known is not None
    assert not known.is_new
    after = correlator.write(notice(action="Another"), AT_NS + SIMILAR_NS + 1)
    assert document(after)["action"] == "Another"


def test_an_object_has_25_events_at_once_and_then_one_each_five_minutes_k11_3() -> None:
    correlator = Correlator("h")
    written = [correlator.write(notice(), AT_NS + index) for index in range(3 * BURST)]
    assert sum(one is not None for one in written) == BURST
    other = notice(regarding=Regarding("Pod", "b", "u2", "default"))
    assert correlator.write(other, AT_NS) is not None
    again = correlator.write(notice(), AT_NS + REFILL_NS)
    assert again is not None
    assert document(again)["series"] == {
        "count": 3 * BURST + 1,
        "lastObservedTime": "2025-11-21T08:20:00.000042Z",
    }
    assert correlator.write(notice(), AT_NS + REFILL_NS + 1) is None


@given(st.lists(st.tuples(st.integers(0, 2 * REFILL_NS), st.integers(0, 3)), max_size=200))
def test_no_window_holds_more_events_of_an_object_than_its_budget_k11_3(
    steps: list[tuple[int, int]],
) -> None:
    correlator, now = Correlator("h"), AT_NS
    written: list[int] = []
    for later, action in steps:
        now += later
        if correlator.write(notice(action=str(action)), now) is not None:
            written.append(now)
    for index, begin in enumerate(written):
        for count, end in enumerate(written[index:], 1):
            assert count <= BURST + (end - begin) // REFILL_NS + 1


def test_a_clock_that_jumps_neither_raises_nor_floods() -> None:
    correlator = Correlator("h")
    hour = 3_600_000_000_000
    names = set()
    for at_ns in (AT_NS, AT_NS - hour, AT_NS + hour, AT_NS - hour):
        write = correlator.write(notice(), at_ns)
        assert write is not None
        names.add(write.name)
    assert len(names) == 2


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "REMEMBERED_MAX", 2)
    correlator = Correlator("h")
    objects = [Regarding("Pod", name, name, "default") for name in ("a", "b", "a", "c", "a", "b")]
    written = [correlator.write(notice(regarding=one), AT_NS) for one in objects]
    # The one that was used longest ago is forgotten.
    assert [one.is_new for one in written if one] == [True, True, False, True, False, True]
