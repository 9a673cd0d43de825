"""Pods with claims wait while the kinds about volumes are not listed, and only they; and what wakes them."""

from typing import Any

import pytest

from daemon.cluster.client.calls import LIST, WATCH
from events.daemon import DaemonStarted
from events.messages import ListCompleted, ListStarted, ObjectSeen
from events.watch import FORBIDDEN, WatchClosed, WatchOpened
from features.table import FEATURES
from projections import snapshot
from projections.volumes.claim_users import ClaimUsers
from projections.volumes.facts import BOUND, CLAIM, DRIVER, STORAGE_CLASS, VOLUME, VOLUME_KINDS
from projections.volumes.kind_status import FORBIDDEN as NOT_ALLOWED
from projections.volumes.kind_status import NOT_SERVED
from tests.scheduling.builders import SECOND, EngineHarness, gone, node, pod, raw


def claim(name: str = "data", volume: str = "pv", mode: str = "ReadWriteMany") -> bytes:
    """A claim that is bound, if it names a volume."""
    annotations = {BOUND: "yes"} if volume else {}
    spec: dict[str, Any] = {"accessModes": [mode], **({"volumeName": volume} if volume else {})}
    metadata = {"namespace": "default", "annotations": annotations}
    return raw(CLAIM, name, metadata=metadata, spec=spec)


def volume(name: str = "pv", mode: str = "ReadWriteMany", **spec: object) -> bytes:
    """A volume that every node can reach, if nothing else is said."""
    reserved = {"namespace": "default", "name": "data"}
    return raw(VOLUME, name, spec={"accessModes": [mode], "claimRef": reserved, **spec})


def user(name: str, *claims: str, **parts: Any) -> bytes:
    """A pod whose volumes name claims."""
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, spec={"volumes": volumes}, **parts)


def harness(kinds: tuple[str, ...] = VOLUME_KINDS) -> EngineHarness:
    """Two nodes, under a daemon that reads volumes; nothing about volumes is listed."""
    found = EngineHarness()
    started = DaemonStarted(
        holder="test",
        version="0",
        period_ns=SECOND,
        scheduler_names=("muster",),
        volume_kinds=kinds,
    )
    found.engine.start(started, None, 2, 0)
    found.show_all("Node", node("n1"), node("n2"))
    return found


def listed(**objects: tuple[bytes, ...]) -> EngineHarness:
    """The same with everything listed."""
    found = harness()
    for kind in VOLUME_KINDS:
        found.show_all(kind, *objects.get(kind, ()))
    found.show_the_rest()
    return found


def code_of(one: EngineHarness, name: str) -> str:
    """The code for which the group of a pod waits; empty if it does not."""
    group = one.state.cluster.groups[f"default/podgroup-uid-{name}"]
    return next((refusal.code for refusal in group.decided.refusals.values()), "")


def node_of(one: EngineHarness, name: str) -> str:
    """The node of a pod."""
    return one.state.cluster.pods[f"uid-{name}"].node


@pytest.mark.parametrize("kind", VOLUME_KINDS)
def test_while_one_kind_is_forbidden_pods_with_claims_wait_and_all_others_go_on(kind: str) -> None:
    one = harness()
    shown = {CLAIM: (claim(),), VOLUME: (volume(),)}
    for other in VOLUME_KINDS:
        if other != kind:
            one.show_all(other, *shown.get(other, ()))
    one.see(WatchClosed(resource=kind, resource_version="", cause=FORBIDDEN))
    one.show_all("Pod", user("with", "data"), pod("without"))
    one.show_the_rest()
    one.cycle()
    assert (node_of(one, "with"), code_of(one, "with")) == ("", "VolumesNotListed")
    assert node_of(one, "without")
    group = one.state.cluster.groups["default/podgroup-uid-with"]
    assert (
        group.decided.refusals["allocate"].message
        == f"{kind} is {NOT_ALLOWED}; pods with claims wait for it"
    )
    one.show_all(kind, *shown.get(kind, ()))
    one.cycle()
    assert node_of(one, "with")


def test_the_daemon_is_ready_without_the_right_to_list_what_only_pods_with_claims_wait_for() -> (
    None
):
    assert all(LIST[kind].is_optional and WATCH[kind].is_optional for kind in VOLUME_KINDS)
    assert not LIST["Pod"].is_optional


def test_a_kind_that_is_not_served_or_has_a_gap_is_named_too() -> None:
    one = listed(**{CLAIM: (claim(),), VOLUME: (volume(),)})
    one.see(WatchClosed(resource=VOLUME, resource_version="1", cause="expired", has_gap=True))
    one.see(ObjectSeen(user("with", "data")))
    one.cycle()
    assert code_of(one, "with") == "VolumesNotListed"
    one.see(ListStarted(DRIVER), ListCompleted(DRIVER, "", 0, served=False))
    one.show_all(VOLUME, volume())
    one.cycle()
    group = one.state.cluster.groups["default/podgroup-uid-with"]
    assert group.decided.refusals["allocate"].message.startswith(f"{DRIVER} is {NOT_SERVED}")


def test_a_resumed_watch_counts_as_listed() -> None:
    one = listed(**{CLAIM: (claim(),), VOLUME: (volume(),)})
    started = DaemonStarted(
        holder="again",
        version="0",
        period_ns=SECOND,
        scheduler_names=("muster",),
        volume_kinds=VOLUME_KINDS,
    )
    one.engine.start(started, None, 3, one.now_ns)
    for kind in (*VOLUME_KINDS, "Node", "Pod", "PodGroup", "Queue", "PriorityClass"):
        one.see(WatchOpened(resource=kind, resource_version="1", is_resumed=True))
    one.see(ObjectSeen(user("with", "data")))
    one.cycle()
    assert node_of(one, "with")


def test_in_a_log_whose_daemon_read_no_volumes_pods_with_claims_are_refused_as_then() -> None:
    one = harness(())
    one.show_all("Pod", user("with", "data"))
    one.show_the_rest()
    one.cycle()
    group = one.state.cluster.groups["default/podgroup-uid-with"]
    refusal = group.decided.refusals["allocate"]
    assert refusal.code == "UnsupportedDemand"
    assert refusal.message == "volume data needs a claim: volume claims are not supported"


def test_a_pod_is_tried_again_when_what_it_waits_for_changes_and_not_before() -> None:
    one = listed(**{CLAIM: (claim(volume=""),), VOLUME: (volume(),)})
    one.see(ObjectSeen(user("with", "data")))
    one.cycle()
    assert code_of(one, "with") == "ClaimUnbound"
    one.see(ObjectSeen(claim("other")), ObjectSeen(volume("pv2")))
    assert not one.engine.is_due(one.now_ns + SECOND)
    one.see(ObjectSeen(claim()))
    assert one.engine.is_due(one.now_ns + SECOND)
    one.cycle()
    assert node_of(one, "with")


@pytest.mark.parametrize("kind", [VOLUME, DRIVER, STORAGE_CLASS, CLAIM])
def test_nothing_is_noted_of_volumes_while_no_pod_with_claims_waits(kind: str) -> None:
    one = listed()
    one.see(ObjectSeen(raw(kind, "x", metadata={"namespace": "default"}, spec={})))
    assert not one.state.cluster.wakeup_events.volumes_changed
    assert not one.engine.is_due(one.now_ns + SECOND)


def test_a_snapshot_holds_all_that_decides_about_claims() -> None:
    one = listed(**{CLAIM: (claim(),), VOLUME: (volume(),)})
    one.see(ObjectSeen(user("with", "data")), ObjectSeen(user("other", "nowhere")))
    one.cycle()
    restored = snapshot.restore(snapshot.take(one.state), FEATURES)
    restored.validate()
    assert restored.cluster.volume_kinds == one.state.cluster.volume_kinds
    assert restored.cluster.object_facts == one.state.cluster.object_facts
    users = restored.cluster.indexes.of(ClaimUsers)
    assert users.pods == one.state.cluster.indexes.of(ClaimUsers).pods != {}
    assert users.waiting == {"default/nowhere": 1}


def affinity(key: str, value: str) -> object:
    """The node affinity of a volume."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


HOSTILE = [
    pytest.param(
        claim(), volume(nodeAffinity={"required": {}}), "VolumeNodeConflict", id="no terms"
    ),
    pytest.param(claim(), volume(nodeAffinity="x"), "VolumeNodeConflict", id="affinity is a text"),
    pytest.param(
        claim(),
        volume(nodeAffinity={"required": {"nodeSelectorTerms": [{}]}}),
        "VolumeNodeConflict",
        id="an empty term",
    ),
    pytest.param(
        claim(),
        volume(nodeAffinity=affinity("a" * 4000, "b" * 4000)),
        "VolumeNodeConflict",
        id="long",
    ),
    pytest.param(claim(), raw(VOLUME, "pv", spec="x"), "VolumeMissing", id="spec is a text"),
    pytest.param(
        claim(), raw(VOLUME, "pv", spec={"csi": {"driver": "\n"}}), "VolumeMissing", id="driver"
    ),
    pytest.param(claim(), raw(VOLUME, "pv"), "", id="no spec"),
    pytest.param(claim(), volume(csi=None, local=None), "", id="sources are null"),
    pytest.param(
        claim(volume="p" * 300), volume(), "ClaimMissing", id="name of the volume is long"
    ),
    pytest.param(
        claim(volume="a/b"), volume(), "ClaimMissing", id="name of the volume has a slash"
    ),
    pytest.param(
        raw(CLAIM, "data", metadata={"namespace": "default"}, spec={"accessModes": "x"}),
        volume(),
        "ClaimMissing",
        id="modes are a text",
    ),
    pytest.param(
        raw(CLAIM, "data", metadata={"namespace": "default"}), volume(), "ClaimUnbound", id="empty"
    ),
]


@pytest.mark.parametrize(("of_claim", "of_volume", "code"), HOSTILE)
def test_a_hostile_claim_or_volume_stops_only_its_own_pods(
    of_claim: bytes, of_volume: bytes, code: str
) -> None:
    one = listed(**{CLAIM: (of_claim,), VOLUME: (of_volume,)})
    one.see(ObjectSeen(user("with", "data")), ObjectSeen(pod("without")))
    one.cycle()
    assert node_of(one, "without")
    assert code_of(one, "with") == code


@pytest.mark.parametrize(
    "volumes",
    [
        pytest.param([{"name": "v", "persistentVolumeClaim": "x"}], id="a text"),
        pytest.param([{"name": "v", "persistentVolumeClaim": {"claimName": 7}}], id="a number"),
        pytest.param([{"name": "v", "persistentVolumeClaim": {"claimName": "a/b"}}], id="a slash"),
        pytest.param([{"name": "v\n", "ephemeral": {}}], id="control characters"),
        pytest.param(
            [
                {"name": f"v{n}", "persistentVolumeClaim": {"claimName": "data"}}
                for n in range(1001)
            ],
            id="too many",
        ),
    ],
)
def test_claims_of_a_pod_that_cannot_be_read_refuse_the_pod(volumes: object) -> None:
    one = listed(**{CLAIM: (claim(),), VOLUME: (volume(),)})
    one.see(ObjectSeen(pod("with", spec={"volumes": volumes})), ObjectSeen(pod("without")))
    one.cycle()
    assert node_of(one, "without")
    assert code_of(one, "with") == "UnsupportedDemand"


def test_a_volume_in_use_on_a_node_that_is_gone_is_named() -> None:
    disk = volume(mode="ReadWriteOnce", csi={"driver": "d", "volumeHandle": "h"})
    one = listed(**{CLAIM: (claim(mode="ReadWriteOnce"),), VOLUME: (disk,)})
    one.see(ObjectSeen(user("holder", "data", on="n9", phase="Running")))
    one.see(ObjectSeen(user("with", "data")))
    one.cycle()
    assert code_of(one, "with") == "VolumeInUse"
    one.see(gone(user("holder", "data", on="n9", phase="Running")))
    one.cycle()
    assert node_of(one, "with")
