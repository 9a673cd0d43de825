"""A shadow on a simulated API server: another scheduler, which the test plays, places the pods."""

import asyncio
from typing import Final

from daemon.settings import Settings, as_shadow
from events.daemon import DaemonStarted
from events.normalize import JsonObject
from events.outcome import ShadowDecisionEnded
from tests.daemon.trouble.rig import PODS, Given, StartTrial, Trial
from tests.storm.over_http.hurry import hurriedly

READING: Final = {"get", "list", "watch"}
NODES: Final = """\
cluster:
  - {kind: Node, metadata: {name: "n{i}"}, status: {allocatable: {cpu: 2, pods: 20}}, count: 2}
"""


def shadow(text: str = NODES, hold_seconds: float = 300) -> Given:
    settings = Settings(listen="", log="memory:", shadow_hold_seconds=hold_seconds)
    return Given(text=text, settings=as_shadow(settings, ("other",)))


def place(one: Trial, name: str, node: str) -> None:
    """Let the other scheduler bind a pod."""
    one.others.add(name)
    body: JsonObject = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    one.ask("POST", f"{PODS}/{name}/binding", body)


def writes(one: Trial) -> list[str]:
    """Return the requests that the API server got over HTTP and that are not reads."""
    entries = one.server.shell.journal.entries
    assert entries, "the daemon asked for nothing"
    return [f"{e.verb} {e.resource}" for e in entries if e.verb not in READING]


@hurriedly
async def test_a_shadow_decides_and_writes_nothing(trouble: StartTrial) -> None:
    async with trouble(shadow()) as one:
        one.pod("a", schedulerName="other")
        one.pod("b", schedulerName="third")
        await one.until(lambda: one.decided_nodes("a"))
        await asyncio.sleep(20)
        assert one.node_of("a") == ""
        assert one.decided_nodes("b") == []
        place(one, "a", "n2")
        await one.until(lambda: one.events(ShadowDecisionEnded))
        [ended] = one.events(ShadowDecisionEnded)
        assert (ended.pod, ended.node, ended.reason) == ("default/a", "n1", "placed")
        [pod] = [pod for pod in one.state.cluster.pods.values() if pod.key == "default/a"]
        assert pod.node == "n2"
        assert one.events(DaemonStarted)[0].is_shadow
        assert one.operation.health.role == "shadow"
        assert writes(one) == []


@hurriedly
async def test_an_assumed_placement_is_given_up_when_the_other_scheduler_leaves_the_pod_waiting(
    trouble: StartTrial,
) -> None:
    async with trouble(shadow(hold_seconds=60)) as one:
        one.pod("a", schedulerName="other")
        await one.until(lambda: one.state.commitments)
        await asyncio.sleep(50)
        assert not one.events(ShadowDecisionEnded)
        await one.until(lambda: one.events(ShadowDecisionEnded), 20)
        assert one.events(ShadowDecisionEnded)[0].reason == "expired"
        await one.until(lambda: len(one.decided_nodes("a")) == 2)
        one.ask("DELETE", f"{PODS}/a")


@hurriedly
async def test_facts_of_the_other_scheduler_correct_what_the_shadow_decides(
    trouble: StartTrial,
) -> None:
    async with trouble(shadow()) as one:
        for name in ("a", "b"):
            one.pod(name, schedulerName="other")
            place(one, name, "n1")
        one.pod("c", schedulerName="other")
        await one.until(lambda: one.decided_nodes("c") == ["n2"])
        place(one, "c", "n2")


@hurriedly
async def test_a_shadow_goes_on_with_its_log_after_a_restart(trouble: StartTrial) -> None:
    async with trouble(shadow(hold_seconds=60)) as one:
        one.pod("a", schedulerName="other")
        await one.until(lambda: one.state.commitments)
        async with one.away():
            place(one, "a", "n2")
        await one.until(lambda: one.terms == 2 and not one.state.commitments)
        assert one.decided_nodes("a") == ["n1"]
        assert writes(one) == []
