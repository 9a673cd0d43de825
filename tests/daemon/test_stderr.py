"""What is said on stderr: lines of JSON, with the place in the log."""

import json
import logging
import sys
import warnings

import msgspec
import pytest
import structlog
from click import unstyle
from msgspec import structs

from daemon.stderr import BODY_BYTES_MAX, Teller, say_on_stderr
from engine.batch import Batch
from events.cluster import KindListed, ObjectObserved
from events.cycle import CycleOpened
from events.record import GENESIS, Record


def record(position: int, kind: str, cycle: int | None = None) -> Record:
    return Record(
        position=position,
        batch=1,
        epoch=1,
        recorded_at_ns=0,
        cycle=cycle,
        cause=3,
        kind=kind,
        subject="Pod/default/a",
        body=b"{}",
        object=None,
        digest="",
    )


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_durable_records_are_logged_except_observations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    teller = Teller()
    say_on_stderr(teller)
    kinds = ("object_observed.v1", "watch_progressed.v1", "pod_bound.v1")
    records = [record(index, kind, 5) for index, kind in enumerate(kinds, 7)]
    teller.hear(Batch(before=GENESIS, records=records), 0.1)
    (line,) = lines(capsys)
    assert line.pop("timestamp")
    assert line == {
        "event": "pod bound",
        "level": "info",
        "position": 9,
        "cycle": 5,
        "cause": 3,
        "subject": "Pod/default/a",
    }


def test_a_line_begins_with_its_time_level_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    say_on_stderr(Teller())
    structlog.get_logger("muster").warning("the log cannot be written", error="disk full")
    (line,) = lines(capsys)
    assert list(line)[:3] == ["timestamp", "level", "event"]


def test_a_decision_names_its_pods_and_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller()
    say_on_stderr(teller)
    bodies = [
        b'{"pod_group":"default/a","queue":"q","placements":[{"pod":"default/a-0","uid":"u","node":"n1"}]}',
        msgspec.json.encode(
            {
                "queue": "q",
                "placements": [{"pod": f"default/b-{i}", "node": f"n{i}"} for i in range(7)],
            }
        ),
        b'{"evictions":[{"pod":"default/c-0","uid":"u","node":"n2"}],"in_favour_of":"default/a","code":"PREEMPTED"}',
        b'{"queue":5}',
        b'{"message":"' + b"x" * BODY_BYTES_MAX + b'"}',
    ]
    records = [
        structs.replace(record(at, "gang_bind_decided.v1", 5), body=body)
        for at, body in enumerate(bodies, 6)
    ]
    teller.hear(Batch(before=GENESIS, records=records), 0.1)
    common = {"timestamp", "level", "event", "subject", "position", "cycle", "cause"}
    about = [
        {key: value for key, value in line.items() if key not in common} for line in lines(capsys)
    ]
    assert about == [
        {"pod": "default/a-0", "node": "n1", "queue": "q"},
        {
            "pods": "default/b-0 on n0, default/b-1 on n1, default/b-2 on n2, default/b-3 on n3, default/b-4 on n4, 2 more",
            "pod_count": 7,
            "queue": "q",
        },
        {"pod": "default/c-0", "node": "n2", "in_favour_of": "default/a", "code": "PREEMPTED"},
        {},
        {},
    ]


def test_one_line_says_that_the_cluster_was_listed(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller()
    say_on_stderr(teller)
    listed, observed = KindListed.kind, ObjectObserved.kind
    kinds = (listed, observed, observed, listed)
    records = [record(at, kind) for at, kind in enumerate((*kinds, CycleOpened.kind), 3)]
    teller.hear(Batch(before=GENESIS, records=records), 0.1)
    teller.hear(Batch(before=GENESIS, records=[record(9, CycleOpened.kind)]), 0.1)
    (line,) = lines(capsys)
    assert (line["event"], line["kinds"], line["objects"]) == ("cluster listed", 2, 2)


def test_every_other_line_says_where_in_the_log_it_was_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    teller = Teller()
    say_on_stderr(teller, "warning")
    teller.hear(Batch(before=GENESIS, records=[record(9, "pod_bound.v1", 5)]), 0.1)
    teller.hear(Batch(before=GENESIS, records=[record(10, "object_observed.v1")]), 0.1)
    structlog.get_logger("muster").info("of no interest")
    structlog.get_logger("muster").warning("the log cannot be written", error="disk full")
    (line,) = lines(capsys)
    assert (line["event"], line["level"]) == ("the log cannot be written", "warning")
    assert (line["position"], line["cycle"], line["error"]) == (10, 5, "disk full")


def test_what_libraries_say_has_the_same_form_and_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_on_stderr(Teller())
    say_on_stderr(Teller())
    logging.getLogger("some.package").warning("deprecated: %s", "v1beta1")
    logging.getLogger("some.package").info("chatter")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(capture=False)
    first, second = lines(capsys)
    assert (first["event"], first["logger"]) == ("deprecated: v1beta1", "some.package")
    assert "DeprecationWarning: old" in str(second["event"])


def test_an_error_with_its_traceback_is_still_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_on_stderr(Teller())
    try:
        raise ValueError("a bug")
    except ValueError:
        logging.getLogger("asyncio").exception("task failed")
    (line,) = lines(capsys)
    assert "ValueError: a bug" in str(line["exception"])


def test_values_that_json_cannot_encode_are_logged_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_on_stderr(Teller())
    structlog.get_logger("muster").info("odd", what=object(), bytes=b"x", place=sys)
    (line,) = lines(capsys)
    assert "object" in str(line["what"])


HOSTILE = "\x1b[2J\x00\x9b31m\u202e\n[red]"


def test_what_a_line_quotes_is_escaped_in_json_and_stays_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_on_stderr(Teller())
    structlog.get_logger("muster").warning(HOSTILE, error=HOSTILE)
    out = capsys.readouterr().err
    assert out.removesuffix("\n").isprintable()
    assert json.loads(out)["error"] == json.loads(out)["event"] == HOSTILE


def test_what_a_line_quotes_is_escaped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    say_on_stderr(Teller())
    structlog.get_logger("muster").warning(HOSTILE, error=HOSTILE, **{HOSTILE: [HOSTILE]})
    logging.getLogger("library").warning("said %s", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger("muster").exception("failed")
    out = capsys.readouterr().err
    assert "ValueError: " in out
    assert "in test_what_a_line_quotes_is_escaped_on_a_terminal" in out
    assert all(one.isprintable() or one == "\n" for one in unstyle(out))
    assert "\x1b[2J" not in out
