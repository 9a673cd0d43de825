"""The account of a shadow: a test plays the other scheduler on a simulated API server."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from daemon.log.bundle_log import BundleLog
from daemon.log.memory import MemoryLog
from daemon.queries.bundles import export_stretch
from daemon.queries.shadow_report import shadow_report
from daemon.settings import Settings, as_shadow
from events.normalize import Json, JsonObject
from events.record import GENESIS
from replay.log_time import LogTime
from replay.shadow_report import ShadowReport
from tests.daemon.trouble.rig import PODS, Given, StartTrial, Trial
from tests.daemon.trouble.test_shadow import place
from tests.storm.over_http.hurry import hurriedly

GPU: Final = "nvidia.com/gpu"
CLUSTER: Final = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: T4}}
    status: {allocatable: {cpu: 16, memory: 64Gi, pods: 20, nvidia.com/gpu: 4}}
    count: 2
  - kind: Queue
    metadata: {name: default, annotations: {volcano.sh/card.quota: '{"T4": 8}'}}
    spec: {capability: {cpu: 100, memory: 100Gi}}
  - kind: Queue
    metadata: {name: small, annotations: {volcano.sh/card.quota: '{"T4": 2}'}}
    spec: {capability: {cpu: 100, memory: 100Gi}}
"""


def given() -> Given:
    settings = Settings(listen="", log="memory:")
    return Given(text=CLUSTER, settings=as_shadow(settings, ("other",)))


def card_pod(one: Trial, name: str, group: str = "", cards: int = 1, **spec: Json) -> None:
    marks: JsonObject = {"volcano.sh/card.name": "T4"}
    if group:
        marks["scheduling.k8s.io/group-name"] = group
    resources: JsonObject = {"requests": {"cpu": "1", GPU: str(cards)}, "limits": {GPU: str(cards)}}
    body: JsonObject = {
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {
            "schedulerName": "other",
            "containers": [{"name": "main", "image": "image", "resources": resources}],
            **spec,
        },
    }
    one.ask("POST", PODS, body)


def group(one: Trial, name: str, minimum: int, queue: str = "default") -> None:
    path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    spec: JsonObject = {"minMember": minimum, "queue": queue}
    one.ask("POST", path, {"metadata": {"name": name}, "spec": spec})


async def report_of(one: Trial) -> ShadowReport:
    log = MemoryLog(one.memory)
    log.base = GENESIS
    return await shadow_report(log)


def pods_by_class(report: ShadowReport) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for account in report.accounts:
        found.setdefault(account.in_class, []).append(account.pod.partition("/")[2])
    return found


async def check_cuts(log: MemoryLog, whole: ShadowReport, folder: Path) -> None:
    """Compare the account of each stretch up to the end with that of the whole log: that of a pod is the same, but for those that had
    a node before the stretch."""
    of_whole = {one.pod: one for one in whole.accounts}
    batches = [
        one.batch for one in log.memory.records if 30 < one.batch == one.position <= whole.position
    ]
    for first in batches[:: max(1, len(batches) // 12)]:
        await export_stretch(log, folder / "a.muster", first=first, replaces=True)
        bundle = BundleLog(folder / "a.muster")
        begun_ns = log.memory.records[bundle.base.position - 1].recorded_at_ns
        report = await shadow_report(bundle, LogTime(position=whole.position))
        assert report.classes[0].means.endswith(", or where the log begins")
        for one in report.accounts:
            known = of_whole[one.pod]
            if one.in_class == "already placed":
                assert known.placed_ns is not None
                assert known.placed_ns <= begun_ns
                assert (one.seen_ns, one.node, one.cards) == (
                    known.seen_ns,
                    known.node,
                    known.cards,
                )
            else:
                assert one == known, first
        left = [one for one in whole.accounts if (one.ended_ns or begun_ns + 1) > begun_ns]
        assert {one.pod for one in left} == {one.pod for one in report.accounts}
        begun = [one for one in whole.overruns if one.from_ns > begun_ns]
        assert [one for one in report.overruns if one.from_ns > begun_ns] == begun
        gangs = [one for one in whole.half_gangs if one.from_ns > begun_ns]
        assert [one for one in report.half_gangs if one.from_ns > begun_ns] == gangs


@hurriedly
async def test_every_pod_is_in_one_class_and_the_account_adds_up(
    trouble: StartTrial, tmp_path: Path
) -> None:
    async with trouble(given()) as one:
        group(one, "over", 1, "small")
        group(one, "gang", 3)
        card_pod(one, "before")
        place(one, "before", "n1")
        await one.until(lambda: one.state.is_synced and one.state.cluster.pods)
        card_pod(one, "early")
        card_pod(one, "never")
        card_pod(one, "nowhere", nodeSelector={"no": "node"})
        await one.until(lambda: one.decided_nodes("early") and one.decided_nodes("never"))
        early_at = asyncio.get_running_loop().time()
        await asyncio.sleep(36)
        place(one, "early", "n2")
        waited = asyncio.get_running_loop().time() - early_at
        for name in ("g1", "g2"):
            card_pod(one, name, "gang")
        card_pod(one, "over1", "over", cards=3)
        await asyncio.sleep(5)
        place(one, "over1", "n2")
        place(one, "g1", "n1")
        await asyncio.sleep(72)
        one.ask("DELETE", f"{PODS}/over1")
        card_pod(one, "g3", "gang")
        await asyncio.sleep(5)
        for name in ("g2", "g3"):
            place(one, name, "n1")
        await asyncio.sleep(5)
        report = await report_of(one)
        one.ask("DELETE", f"{PODS}/never")
        await asyncio.sleep(1)
        log = MemoryLog(one.memory)
        log.base = GENESIS
    classes = pods_by_class(report)
    assert classes.pop("already placed") == ["before"]
    assert classes.pop("earlier") == ["early", "g2", "g3"]
    assert classes.pop("later") == ["g1", "over1"]
    assert classes.pop("only muster") == ["never"]
    assert classes.pop("neither") == ["nowhere"]
    assert not classes
    assert sum(row.pods for row in report.classes) == report.pods == len(report.accounts) == 8
    found = {account.pod.partition("/")[2]: account for account in report.accounts}
    assert abs(found["early"].gain_seconds - waited) < 1
    assert found["early"].cards == {"T4": 1}
    same = [name for name in ("early", "g2", "g3") if found[name].node in one.decided_nodes(name)]
    assert (report.same_node, report.other_node) == (len(same), 3 - len(same))
    [overrun] = report.overruns
    assert (overrun.queue, overrun.resource) == ("small", "T4")
    assert (overrun.capability, overrun.peak, overrun.is_open) == (2, 3, False)
    assert 71 < found["over1"].delay_seconds < 74
    assert abs(overrun.excess_hours - 72 / 3600) < 2 / 3600
    [gang] = report.half_gangs
    assert (gang.pod_group, gang.most, gang.min_available) == ("default/gang", 1, 3)
    assert gang.ended == "complete"
    assert abs(gang.card_hours - 77 / 3600) < 2 / 3600
    assert report.reasons == {"InsufficientScalarQuota": 1, "NotEnoughPods": 1}
    gains = sum(account.gain_seconds for account in report.accounts) / 3600
    assert abs(report.lost_card_hours - gains) < 1e-9
    assert msgspec.json.decode(msgspec.json.encode(report))["pods"] == 8
    await check_cuts(log, report, tmp_path)
