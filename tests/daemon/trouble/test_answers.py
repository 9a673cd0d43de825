"""Trouble with answers: too many requests, errors, plain text, half a line, nothing; on every kind of call."""

import asyncio

import pytest

from events.outcome import PodBound
from simulator.api_server.faults import Fault, FaultKind
from tests.daemon.trouble.rig import StartTrial
from tests.storm.over_http.hurry import hurriedly

TIMES = 6
"""So many requests of a kind in a row are answered like that."""
KINDS = (
    *(
        FaultKind.THROTTLE,
        FaultKind.THROTTLE_LATER,
        FaultKind.FAIL,
        FaultKind.FAIL_TEXT,
        FaultKind.EMPTY,
        FaultKind.CUT,
    ),
    *(FaultKind.DROP, FaultKind.LOSE),
)
CALLS = (("list", "pods"), ("watch", "pods"), ("create", "pods/binding"), ("update", "leases"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("verb", "resource"), CALLS)
@hurriedly
async def test_bad_answers_lose_no_decision_and_bind_no_pod_twice(
    trouble: StartTrial, verb: str, resource: str, kind: FaultKind
) -> None:
    """K8, K12.1, K12.2: 429, 500, plain text, half a line, nothing; K14.3 for the lease."""
    async with trouble() as one:
        one.faults.add(Fault(kind, 1), verb, resource, times=TIMES)
        one.pod("a")
        await one.until_bound("a")
        one.faults.add(Fault(kind, 1), verb, resource, times=TIMES)
        one.server.shell.break_connections()
        one.pod("b")
        await one.until_bound("b")
        await one.until(lambda: len({event.uid for event in one.events(PodBound)}) == 2)
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_a_watch_that_goes_silent_in_the_middle_of_a_line_is_noticed(
    trouble: StartTrial,
) -> None:
    """K3.12"""
    async with trouble() as one:
        one.pod("a")
        await one.until_bound("a")
        one.faults.add(Fault(FaultKind.STALL, 0), "watch", "pods")
        one.server.shell.break_connections()
        one.pod("b")
        await one.until(lambda: one.node_of("b"), seconds=700)


@hurriedly
async def test_a_binding_that_is_never_answered_is_found_out(trouble: StartTrial) -> None:
    """K8: nothing at all is said to the binding, which was done."""
    async with trouble() as one:
        one.faults.add(Fault(FaultKind.STALL), "create", "pods/binding")
        one.pod("a")
        await one.until(lambda: one.events(PodBound))


@hurriedly
async def test_a_server_that_fails_for_a_quarter_of_an_hour_is_not_hammered(
    trouble: StartTrial,
) -> None:
    """K3.11: over any minute not more than a request a second, whatever is answered."""
    async with trouble() as one:
        one.pod("a")
        await one.until_bound("a")
        one.faults.add(Fault(FaultKind.FAIL_TEXT), times=1_000_000)
        one.server.shell.break_connections()
        one.pod("b")
        await asyncio.sleep(900)
        assert not one.node_of("b")
        one.faults.forget()
        await one.until_bound("b")
        await one.until(lambda: not one.reasons)
