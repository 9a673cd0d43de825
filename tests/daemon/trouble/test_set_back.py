"""An API server that is set back to an older snapshot, under a whole daemon in virtual time.

At the end of each test the rig holds what muster knows against what the server has.
"""

import asyncio

import pytest

from daemon.cluster.client.calls import WATCHED
from daemon.cluster.watching.audit import FULL_LIST_FIRST_SECONDS
from daemon.cluster.watching.reflector import SILENT_SECONDS
from daemon.settings import Settings
from events.cluster import KindListed, ObjectDeleted
from events.codec import event_of
from events.cycle import CycleOpened
from events.outcome import PodBound
from events.union import Event
from events.watch import WENT_BACK, KindCompared, WatchClosed
from projections.kind_table import REQUIRED
from simulator.api_server.faults import Fault, FaultKind
from simulator.manifest_fields import changed
from tests.daemon.trouble.rig import MERGE, Given, StartTrial, Trial
from tests.storm.over_http.hurry import hurriedly

SOON_SECONDS = 20.0
SLOW = Fault(FaultKind.DELAY, 100)
"""An answer that takes a second."""
GIVEN = Given(settings=Settings(listen="", log="memory:", leader_elect=False))


def gaps(one: Trial) -> set[str]:
    """Kinds of which the log says that their revisions went back."""
    return {event.resource for event in one.events(WatchClosed) if event.cause == WENT_BACK}


def is_gap(event: Event) -> bool:
    """Whether the log says here that revisions of pods went back."""
    return isinstance(event, WatchClosed) and (event.resource, event.cause) == ("Pod", WENT_BACK)


def pass_revision(one: Trial, writes: int) -> None:
    """Others write until the server is beyond the revision that it had before."""
    for index in range(writes):
        body = {"metadata": {"annotations": {"example.com/turn": str(index)}}}
        one.ask("PATCH", "/api/v1/nodes/n1", body, MERGE)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [GIVEN, Given()], ids=["alone", "with a Lease"])
@hurriedly
async def test_a_daemon_notices_and_goes_on_with_what_there_is(
    trouble: StartTrial, settings: Given
) -> None:
    """Row: none of 60 new pods bound for five minutes, ready and leader by its own word."""
    async with trouble(settings) as one:
        one.pod("kept")
        await one.until_bound("kept")
        await asyncio.sleep(5)
        snapshot = one.server.api.snapshot()
        one.pod("lost")
        await one.until_bound("lost")
        await asyncio.sleep(5)
        one.server.restore(snapshot)
        one.pod("new")
        await one.until(lambda: one.node_of("new"), SOON_SECONDS)
        assert gaps(one) == {one.name for one in WATCHED}
        await one.until(lambda: not one.reasons)
        [gone] = [event for event in one.events(ObjectDeleted) if event.synthesized]
        assert "lost" not in {pod.facts.name for pod in one.state.cluster.pods.values()}
        assert gone.uid


@hurriedly
async def test_it_is_not_ready_and_decides_nothing_until_everything_is_listed_again(
    trouble: StartTrial,
) -> None:
    async with trouble(GIVEN) as one:
        one.pod("kept")
        await one.until_bound("kept")
        snapshot = one.server.api.snapshot()
        one.pod("lost")
        await one.until_bound("lost")
        await asyncio.sleep(5)
        one.faults.add(SLOW, "list", "pods", times=20)
        one.server.restore(snapshot)
        one.pod("new")
        await one.until(lambda: gaps(one), SOON_SECONDS)
        assert "lists" in one.reasons
        await one.until_bound("new")
        await one.until(lambda: not one.reasons)
        events = [event_of(record) for record in one.memory.records]
        gap = next(at for at, event in enumerate(events) if is_gap(event))
        rest = events[gap:]
        cycle = next(at for at, event in enumerate(rest) if isinstance(event, CycleOpened))
        listed = {event.resource for event in rest[:cycle] if isinstance(event, KindListed)}
        assert listed >= set(REQUIRED)


@hurriedly
async def test_what_was_bound_after_the_snapshot_is_bound_again(trouble: StartTrial) -> None:
    """Its binding was answered, and never happened on the server as it is now."""
    async with trouble(GIVEN) as one:
        one.pod("first")
        await one.until_bound("first")
        one.faults.at("create", "pods/binding", lambda: snapshots.append(one.server.api.snapshot()))
        snapshots: list[object] = []
        one.pod("again")
        await one.until_bound("again")
        await one.until(lambda: len(one.events(PodBound)) == 2)
        one.server.restore(snapshots[0])  # type: ignore[arg-type]
        assert not one.node_of("again")
        await one.until(lambda: one.node_of("again"), SOON_SECONDS)
        await one.until(lambda: len(one.events(PodBound)) == 3)


@hurriedly
async def test_a_server_beneath_which_etcd_is_restored_is_found_out(trouble: StartTrial) -> None:
    """No connection breaks; the watches stay open, and show nothing."""
    async with trouble(GIVEN) as one:
        one.pod("kept")
        await one.until_bound("kept")
        snapshot = one.server.api.snapshot()
        for index in range(4):
            one.pod(f"lost-{index}")
        await one.until_bound("lost-3")
        await asyncio.sleep(5)
        one.server.api.restore(snapshot)
        await one.until(lambda: "Pod" in gaps(one), 2 * SILENT_SECONDS + SOON_SECONDS)
        one.pod("new")
        await one.until(lambda: one.node_of("new"), SOON_SECONDS)


@pytest.mark.parametrize("writes", [0, 200], ids=["still behind", "passed by then"])
@hurriedly
async def test_a_daemon_that_was_away_meanwhile_finds_out_at_its_start(
    trouble: StartTrial, writes: int
) -> None:
    """Row: phantom pods in State, real ones unseen, ready; a further restart does not list either."""
    async with trouble(GIVEN) as one:
        one.pod("kept")
        await one.until_bound("kept")
        snapshot = one.server.api.snapshot()
        for index in range(6):
            one.pod(f"lost-{index}")
        await one.until_bound("lost-5")
        await asyncio.sleep(30)
        async with one.away():
            one.server.restore(snapshot)
            one.pod("new")
            pass_revision(one, writes)
        await one.until(lambda: one.node_of("new"), SOON_SECONDS)
        assert "Pod" in gaps(one)
        assert not any("lost" in pod.facts.name for pod in one.state.cluster.pods.values())


@hurriedly
async def test_a_gap_outlives_the_daemon_that_found_it(trouble: StartTrial) -> None:
    """It ends between the gap and the list: the next one lists, too."""
    async with trouble(GIVEN) as one:
        snapshot = one.server.api.snapshot()
        one.pod("lost")
        await one.until_bound("lost")
        await asyncio.sleep(30)
        one.faults.add(SLOW, "list", "pods", times=1000)
        one.server.restore(snapshot)
        pass_revision(one, 50)
        await one.until(lambda: "Pod" in gaps(one), 60)
        lists = len(one.events(KindListed))
        async with one.away():
            assert not [
                event for event in one.events(KindListed)[lists:] if event.resource == "Pod"
            ]
            one.faults.forget()
        one.pod("new")
        await one.until_bound("new")


@hurriedly
async def test_what_no_watch_and_no_sample_shows_is_found_by_the_full_list(
    trouble: StartTrial,
) -> None:
    """Someone writes past the API server's watch cache: an object is otherwise, and nothing tells of it."""
    async with trouble(GIVEN) as one:
        one.pod("kept")
        await one.until_bound("kept")
        await asyncio.sleep(10)
        store, versions = one.server.api.simulated.store, one.server.api.versions
        kept = store.snapshot()
        pods = kept.objects["Pod"]
        for key, pod in list(pods.items()):
            pods[key] = changed(pod, "metadata", labels={"a": "b"})
        one.server.api.simulated.restore(kept, versions.begin_again)
        await asyncio.sleep(FULL_LIST_FIRST_SECONDS + 60)
        found = {event.resource: event.differences for event in one.events(KindCompared)}
        assert found["Pod"] == 1
        assert set(found.values()) == {0, 1}
        assert not gaps(one)
