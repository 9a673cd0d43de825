"""The judge: what the log says beside what the API server says."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from daemon.log.entry import Entry
from daemon.log.opening import open_log
from daemon.log.verify import verify
from events.cluster import KindListed, ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.daemon import DaemonStarted
from events.decisions.gang_bind import GangBindDecided
from events.outcome import BindFailed, PodBound
from events.union import Event
from events.watch import WENT_BACK, WatchClosed
from projections.state import State
from tests.control_plane.api import Object
from tests.control_plane.kubelet import cards_of, name_of
from tests.control_plane.manifests import CARD
from tests.e2e.device_plugin import REAL
from tests.storm.judge import entries_of, replayed


class Verdict(Struct, frozen=True):
    """What was found, where all is well."""

    records: int
    starts: int
    epoch: int
    bound: int
    """Pods that are, or were seen, where muster decided."""
    refused: dict[str, int]
    """Bindings that were refused, by reason."""
    closes: dict[str, int]
    """Watches that ended, by cause."""
    lists: dict[str, int]
    """How often each kind was listed."""
    kinds: dict[str, int]
    """Records by kind."""


async def events_of(url: str) -> list[Event]:
    """The events of a log."""
    log = await open_log(url)
    try:
        return [event_of(entry.record) for entry in await entries_of(log)]
    finally:
        await log.close()


async def is_settled(url: str, uid: str) -> bool:
    """Whether the log holds a pod, and the outcome of each decision: a lost answer is looked up after a while."""
    log = await open_log(url)
    try:
        entries = await entries_of(log)
    finally:
        await log.close()
    events = (event_of(entry.record) for entry in entries)
    has_seen = any(isinstance(event, ObjectObserved) and event.uid == uid for event in events)
    return has_seen and not _open_decisions(entries)


async def judge(url: str, pods: list[Object], nodes: list[Object], scheduler: str) -> Verdict:
    """Whether the log is whole, replays equal, and agrees with the API's pods. Else an AssertionError.

    All of the API server's pods must be given, as they are now that no daemon runs.
    """
    log = await open_log(url)
    try:
        await verify(log)  # Positions dense, chain whole, batches whole, objects there.
        entries = await entries_of(log)
    finally:
        await log.close()
    state = replayed(entries)
    _check_pods(state, pods)
    _check_nodes(pods, _decided(entries), scheduler)
    _check_room(pods, nodes)
    return _verdict(entries)


def _decided(entries: Iterable[Entry]) -> dict[str, list[tuple[int, str]]]:
    """Pod to the decisions on it: position and node."""
    decided: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        event = event_of(entry.record)
        if isinstance(event, GangBindDecided):
            for one in event.placements:
                decided.setdefault(one.uid, []).append((entry.record.position, one.node))
    return decided


def _check_pods(state: State, pods: list[Object]) -> None:
    """State knows the pods that are there, each where it really is."""
    known = {uid: (pod.node, pod.facts.phase) for uid, pod in state.cluster.pods.items()}
    there = {
        pod["metadata"]["uid"]: (pod["spec"].get("nodeName", ""), pod["status"]["phase"])
        for pod in pods
    }
    assert known == there
    _check_devices(state, pods)


def _check_devices(state: State, pods: list[Object]) -> None:
    """State knows the devices that device plugins have given."""
    for pod in pods:
        real = pod["metadata"].get("annotations", {}).get(REAL)
        if real is not None:
            found = state.cluster.pods[pod["metadata"]["uid"]]
            assert ",".join(found.devices) == real, f"{name_of(pod)} has {real}: {found.devices}"


def _check_nodes(
    pods: list[Object], decided: dict[str, list[tuple[int, str]]], scheduler: str
) -> None:
    """Each pod of ours with a node has it by the decision that it names."""
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod["spec"]["schedulerName"] == scheduler:
            found = decided.get(pod["metadata"]["uid"], [])
            by = int(pod["metadata"]["annotations"]["muster.sh/decision"])
            assert (by, node) in found, f"{name_of(pod)} is on {node} by {by}; decided: {found}"


def _check_room(pods: list[Object], nodes: list[Object]) -> None:
    """No node holds more cards than it has."""
    held: dict[str, int] = {}
    for pod in pods:
        if pod["status"]["phase"] not in ("Succeeded", "Failed"):
            node = pod["spec"].get("nodeName", "")
            held[node] = held.get(node, 0) + cards_of(pod)
    for node in nodes:
        name, cards = node["metadata"]["name"], node["status"]["allocatable"].get(CARD, "0")
        assert held.get(name, 0) <= int(cards), f"{name} holds {held[name]} cards of {cards}"


def _open_decisions(entries: list[Entry]) -> list[tuple[int, str]]:
    """The decisions without an outcome whose pod is not gone: position and pod."""
    left = {(position, uid) for uid, found in _decided(entries).items() for position, _ in found}
    gone: set[str] = set()
    for entry in entries:
        event = event_of(entry.record)
        if isinstance(event, PodBound | BindFailed) and entry.record.cause is not None:
            left.discard((entry.record.cause, event.uid))
        elif isinstance(event, ObjectDeleted):
            gone.add(event.uid)
    return sorted(one for one in left if one[1] not in gone)


def _verdict(entries: list[Entry]) -> Verdict:
    """No decision is lost either: each has an outcome, or its pod is gone."""
    kinds = Counter(entry.record.kind for entry in entries)
    closes: Counter[str] = Counter()
    lists: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    bound: set[str] = set()
    starts = 0
    for entry in entries:
        event = event_of(entry.record)
        if isinstance(event, PodBound):
            assert event.uid not in bound, f"bound twice: {event}"
            bound.add(event.uid)
        elif isinstance(event, BindFailed):
            refused[event.code] += 1
        elif isinstance(event, WatchClosed):
            closes[event.cause] += 1
            if event.cause == WENT_BACK:
                bound.clear()  # What was bound then may have to be bound once more.
        elif isinstance(event, KindListed):
            lists[event.resource] += 1
        starts += isinstance(event, DaemonStarted)
    lost = _open_decisions(entries)
    assert not lost, f"decided, and nothing came of it: {lost}"
    return Verdict(
        records=len(entries),
        starts=starts,
        epoch=entries[-1].record.epoch,
        bound=len(bound),
        refused=refused,
        closes=closes,
        lists=lists,
        kinds=kinds,
    )
