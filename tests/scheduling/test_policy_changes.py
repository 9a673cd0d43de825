"""Rules that change while a daemon runs: what it remembers of the old ones decides nothing under the new."""

import msgspec

from events.codec import event_of
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.eviction import EvictionDecided
from events.normalize import JsonObject
from tests.properties.game import SECOND, Game

QUIET = b'{"actions":"allocate","tiers":[{"plugins":[{"name":"priority"},{"name":"predicates"}]}]}'
EVICTS = QUIET.replace(b'"allocate"', b'"allocate, preempt"')


def put(game: Game, name: str, priority_class: str) -> None:
    """A group of one pod with both cores of the node."""
    spec: JsonObject = {"minMember": 1, "queue": "default", "priorityClassName": priority_class}
    game.api.put("PodGroup", name, {"spec": spec, "status": {"phase": "Inqueue"}})
    requests: JsonObject = {"cpu": "2"}
    body: JsonObject = {
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "m", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    }
    meta: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": name}, "labels": {}}
    game.api.put("Pod", f"{name}-0", body, meta)


def rule(game: Game, policy: bytes) -> None:
    """Let other rules hold."""
    started = DaemonStarted(
        holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
    )
    changed = PolicyChanged(source="test", policy=msgspec.Raw(policy))
    game.take(game.engine.start(started, changed, game.engine.head.epoch + 1, game.now_ns))
    game.engine.begin_listing()
    game.take(game.engine.observe(game.api.listing(), game.now_ns))


def evicted(game: Game) -> list[str]:
    """Return the pod groups for which pods were evicted."""
    events = [event_of(record) for record, _ in game.witness.log]
    return [one.in_favour_of for one in events if isinstance(one, EvictionDecided)]


def test_priorities_changed_while_eviction_was_disabled_count_once_enabled() -> None:
    game = Game(EVICTS)
    game.api.put("PriorityClass", "high", {"value": 5})
    game.api.put("PriorityClass", "other", {"value": 5})
    game.api.put("Node", "n1", {"status": {"allocatable": {"cpu": "2", "pods": "110"}}})
    put(game, "there", "other")
    game.play()
    put(game, "urgent", "high")
    game.play()
    assert evicted(game) == []
    rule(game, QUIET)
    game.api.put("PriorityClass", "other", {"value": 1})
    game.play()
    rule(game, EVICTS)
    game.play()
    assert evicted(game) == ["default/urgent"]
