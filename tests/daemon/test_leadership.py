"""Who leads, in virtual time: never two, soon another, whatever the server and the machines do (K14)."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.cluster.lease import Lease
from daemon.leader import hold_term
from daemon.leadership import Elector, LogAnchor, Timing, holder_identity
from events.errors import SettingsError
from tests.daemon.leases import Fate, Server, Wire
from tests.daemon.processes import Process, Universe
from tests.example_count import examples

TICK = 0.25
"""Between two acts of a leader."""


class Candidate:
    """A process that acts whenever it may."""

    def __init__(
        self, server: Server, name: str, fates: list[Fate] | None = None, *, rate: float = 1.0
    ) -> None:
        self.name = name
        self.wire = Wire(server, fates)
        self.acts: list[float] = []
        """When it acted, in true time."""
        self.stands = True
        self.terms = 0
        self.lost: list[str] = []
        self.wall_ns = 1_700_000_000_000_000_000
        self._stop = False
        self._fail = False
        self._universe = server.universe
        self.process: Process = server.universe.process(
            self._live, offset=1_000.0 * len(name), rate=rate
        )
        self.elector = Elector(
            self.wire,
            name,
            now_ns=lambda: self.wall_ns,
            jitter=lambda: 0.5,
        )
        self.elector.stands = lambda: self.stands

    def leave(self) -> None:
        """Stop in good order."""
        self._stop = True

    def fail(self) -> None:
        """Let its work end with an error, once."""
        self._fail = True

    async def _live(self) -> None:
        while not self._stop:
            await self.elector.campaign()
            self.terms += 1
            term = await hold_term(self.elector, self._work)
            self.lost.append(term.lost or repr(term.error))
            await self.elector.release()

    async def _work(self) -> None:
        while not self._stop:
            if self._fail:
                self._fail = False
                raise ValueError("bug")
            if self.elector.may_act():
                self.acts.append(self._universe.now)
            await asyncio.sleep(TICK)


@pytest.fixture
def universe() -> Iterator[Universe]:
    universe = Universe()
    yield universe
    universe.close()


@pytest.fixture
def server(universe: Universe) -> Server:
    return Server(universe)


def two(server: Server) -> tuple[Candidate, Candidate]:
    """A leader and a standby."""
    first = Candidate(server, "a")
    server.universe.run(2)
    second = Candidate(server, "bb")
    server.universe.run(20)
    assert first.acts
    assert not second.acts
    return first, second


def test_the_timing_is_that_of_k14_1() -> None:
    timing = Timing()
    assert (timing.lease_seconds, timing.renew_seconds, timing.give_up_seconds) == (15, 2.0, 10.0)


@pytest.mark.parametrize("wrong", [{"give_up_seconds": 15.0}, {"renew_seconds": 11.0}])
def test_a_leader_must_give_up_before_others_may_begin(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        Timing(**wrong)  # type: ignore[arg-type]


def test_no_two_processes_have_one_identity() -> None:
    assert holder_identity() != holder_identity()


def test_one_leads_and_renews_every_two_seconds_k14_1(server: Server) -> None:
    first, _ = two(server)
    server.requests.clear()
    server.universe.run(220)
    updates = sum(what == "update" for _, what in server.requests)
    assert 90 <= updates <= 110
    assert [holder for _, holder in server.holders] == ["a"]
    assert first.terms == 1


def test_a_killed_leader_is_followed_when_its_lease_was_unchanged_for_15_s(server: Server) -> None:
    """K14.2 forbids sooner; 3 s later is too late."""
    first, second = two(server)
    renewed = max(at for at, what in server.requests if what == "update")
    first.process.kill()
    server.universe.run(60)
    assert renewed + 15 <= second.acts[0] <= renewed + 18


def test_a_leader_that_leaves_releases_the_lease_within_3_s_k14_5(server: Server) -> None:
    first, second = two(server)
    server.universe.at(20.1, first.leave)
    server.universe.run(20.4)
    assert server.lease is not None
    assert (server.lease.holder, server.lease.duration_seconds) == ("", 1)
    server.universe.run(40)
    assert second.acts[0] <= first.acts[-1] + 3
    assert server.lease.transitions == 1


def test_a_task_that_fails_releases_the_lease_k14_4(server: Server) -> None:
    first, second = two(server)
    second.stands = False
    first.fail()
    server.universe.run(24)
    assert first.lost == ["ValueError('bug')"]
    assert [holder for _, holder in server.holders] == ["a", "", "a"]
    assert first.terms == 2


def test_a_leader_that_cannot_renew_stops_10_s_after_its_last_renewal_k14_4(server: Server) -> None:
    first, second = two(server)
    renewed = max(at for at, what in server.requests if what == "update")
    first.wire.is_cut = True
    server.universe.run(60)
    assert renewed + 9 <= first.acts[-1] < renewed + 10
    assert second.acts[0] >= renewed + 15
    assert "not renewed for 10 s" in first.lost[0]
    first.wire.is_cut = False
    server.universe.run(90)
    assert first.terms == 1


def test_a_leader_whose_server_answers_errors_for_a_while_goes_on_k14_3(server: Server) -> None:
    """Any exception is a failed try."""
    fine, bad = Fate(), Fate(fails=True)
    first = Candidate(server, "a", [fine] * 10 + [bad] * 4 + [fine] * 50)
    server.universe.run(100)
    assert (first.terms, first.lost) == (1, [])


def test_a_renewal_that_was_written_and_not_answered_is_found_k14_3(server: Server) -> None:
    first = Candidate(server, "a", [Fate()] * 6 + [Fate(is_answer_lost=True)] + [Fate()] * 60)
    server.universe.run(100)
    assert (first.terms, first.lost) == (1, [])


def test_an_election_that_was_written_and_not_answered_is_found(server: Server) -> None:
    first = Candidate(server, "a", [Fate(), Fate(is_answer_lost=True), *[Fate()] * 50])
    server.universe.run(10)
    assert first.terms == 1
    assert server.lease is not None
    assert server.lease.transitions == 0


def test_a_wall_clock_that_jumps_an_hour_changes_nothing_k14_2(server: Server) -> None:
    """Times that others wrote are never trusted."""
    first, second = two(server)
    for hours in (1, -2, 1):
        first.wall_ns += hours * 3_600_000_000_000
        second.wall_ns -= hours * 3_600_000_000_000
        server.universe.run(server.universe.now + 30)
    assert [holder for _, holder in server.holders] == ["a"]
    first.process.kill()
    server.universe.run(server.universe.now + 20)
    assert second.terms == 1


def test_a_paused_leader_does_not_act_after_it_resumes_k14_6(server: Server) -> None:
    first, second = two(server)
    first.process.pause(60)
    server.universe.run(79.9)
    assert second.acts
    before = len(first.acts)
    server.universe.run(100)
    assert len(first.acts) == before
    assert first.terms == 1
    assert "not renewed" in first.lost[0]


def test_a_lease_that_is_deleted_ends_the_term_and_is_made_again(server: Server) -> None:
    first, second = two(server)
    server.universe.at(20.5, server.delete)
    server.universe.run(60)
    assert first.lost == ["the lease was deleted"]
    assert server.lease is not None
    # A candidate that saw the lease held waits for its holder all the same.
    assert server.lease.holder == "a"
    assert second.terms == 0


def test_a_daemon_that_is_not_a_candidate_leads_only_after_it_becomes_one(server: Server) -> None:
    first, second = two(server)
    second.stands = False
    first.process.kill()
    server.universe.run(50)
    assert second.terms == 0
    second.stands = True
    server.universe.run(52)
    assert second.terms == 1


def test_a_lease_of_another_program_without_a_duration_is_respected(server: Server) -> None:
    server.create(Lease(holder="other"))
    first = Candidate(server, "a")
    server.universe.run(14)
    assert first.terms == 0
    server.universe.run(17)
    assert first.terms == 1


def test_a_server_that_is_away_is_asked_about_once_a_second(server: Server) -> None:
    first = Candidate(server, "a", [Fate(fails=True)])
    server.universe.run(600)
    assert first.terms == 0
    assert len(server.requests) <= 60 * 20
    assert first.elector.reason == "500"


def spans(candidates: list[Candidate]) -> list[tuple[float, float, str]]:
    """Uninterrupted times of acting, in true time: what lies between two acts of one is its own."""
    acts = sorted((at, one.name) for one in candidates for at in one.acts)
    runs: list[tuple[float, float, str]] = []
    for at, name in acts:
        if runs and runs[-1][2] == name and at - runs[-1][1] < 2 * TICK:
            runs[-1] = (runs[-1][0], at, name)
        else:
            runs.append((at, at, name))
    return runs


FATES = st.lists(
    st.builds(
        Fate,
        there=st.sampled_from([0.001, 0.01, 0.5, 2.9, 7.0, 14.0, 40.0]),
        back=st.sampled_from([0.001, 0.01, 0.5, 2.9, 7.0]),
        is_lost=st.booleans(),
        is_answer_lost=st.booleans(),
        fails=st.booleans(),
    ),
    min_size=1,
    max_size=30,
)
GOOD = st.lists(st.builds(Fate, there=st.sampled_from([0.001, 0.4])), min_size=1, max_size=5)
PAUSES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 150), st.integers(1, 40)), max_size=12
)
RATES = st.sampled_from([0.9, 1.0, 1.1])


@settings(max_examples=examples(100), deadline=None)
@given(
    fates=st.lists(st.one_of(FATES, GOOD), min_size=3, max_size=3),
    pauses=PAUSES,
    rates=st.tuples(RATES, RATES, RATES),
)
def test_there_are_never_two_leaders_at_once(
    fates: list[list[Fate]], pauses: list[tuple[int, int, int]], rates: tuple[float, ...]
) -> None:
    """K14.4: whatever the server answers, however late, and whoever is paused for how long, all acts of
    one leader are over before another's begin; clocks may even run a tenth too fast or too slow."""
    universe = Universe()
    server = Server(universe)
    names = ("a", "bb", "ccc")
    candidates = [
        Candidate(server, name, fate, rate=rate)
        for name, fate, rate in zip(names, fates, rates, strict=True)
    ]
    for who, at, seconds in pauses:
        universe.at(at, _pausing(candidates[who], seconds))
    universe.run(200)
    universe.close()
    acting = {one.name: one for one in candidates}
    changes = [*server.holders, (universe.now + 1, "")]
    held: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for (begin, holder), (end, _) in pairwise(changes):
        if holder:
            held[holder].append((begin, end))
    for name, one in acting.items():
        outside = [at for at in one.acts if not any(a <= at < b for a, b in held[name])]
        assert outside == []
    runs = spans(candidates)
    assert all(before[1] < after[0] for before, after in pairwise(runs))


def _pausing(candidate: Candidate, seconds: int) -> Callable[[], None]:
    return lambda: candidate.process.pause(seconds)


def test_the_lease_states_where_the_log_of_its_leader_ends(server: Server) -> None:
    first = Candidate(server, "a")
    first.elector.log_anchor = lambda: LogAnchor("7:aa", "log")
    server.universe.run(2)
    # A candidate writes nothing of its own log: it must first compare that with what the Lease states.
    assert server.lease is not None
    assert server.lease.anchor == ""
    first.elector.log_anchor = lambda: LogAnchor("9:bb", "log")
    server.universe.run(10)
    assert (server.lease.anchor, server.lease.log) == ("9:bb", "log")
    first.leave()
    server.universe.run(12)
    assert server.lease.holder == ""
    assert server.lease.anchor == "9:bb"
    second = Candidate(server, "bb")
    server.universe.run(20)
    assert server.lease.holder == "bb"
    assert second.elector.stated_anchor == LogAnchor("9:bb", "log")
    assert server.lease.anchor == "9:bb", (
        "what the last leader wrote stays until the next one has compared"
    )
