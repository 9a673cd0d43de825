"""Errors of our own in the log on stderr and in metrics."""

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from daemon.internal_errors import InternalErrorLog
from daemon.metrics.instruments import ACTIVITIES, Instruments
from daemon.metrics.sources import Sources
from projections.internal_error import InternalError, report


def raised(text: str) -> Exception:
    """An exception with a traceback."""
    try:
        raise KeyError(text)
    except KeyError as error:
        return error


def test_the_traceback_of_a_place_is_logged_once_and_each_error_is_counted() -> None:
    registry = CollectorRegistry()
    log = InternalErrorLog(Instruments(registry, Sources()).internal_error)
    with capture_logs() as lines:
        for number in range(3):
            report(raised("x" * 10**6), f"PodGroup/default/g{number}", "allocate", log)
        log(InternalError("PodGroup/default/g", "preempt", "KeyError", raised("y")))
    assert ["traceback" in line for line in lines] == [True, False, False, True]
    assert [line["subject"] for line in lines[:2]] == ["PodGroup/default/g0", "PodGroup/default/g1"]
    assert all(len(str(line)) < 20_000 for line in lines)
    name = "muster_internal_errors_total"
    assert registry.get_sample_value(name, {"activity": "allocate"}) == 3
    assert [registry.get_sample_value(name, {"activity": one}) for one in ACTIVITIES].count(0) > 3
