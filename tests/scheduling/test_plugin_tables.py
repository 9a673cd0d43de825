"""A plugin brings a table of facts that no object states."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from msgspec import Struct

from features.table import FEATURES
from projections.cluster import Cluster
from projections.plugin import GroupState
from projections.snapshot import restore, take
from projections.state import State
from tests.scheduling.builders import EngineHarness, gone, pod


class Ended(Struct):
    """Pod groups that were deleted."""

    keys: dict[str, int] = {}
    """Key to the position at which the last one was deleted."""


class CountsEnded(GroupState):
    """Remembers deleted pod groups."""

    name = "counts-ended"
    version = "1"
    tables: ClassVar[tuple[type[Struct], ...]] = (Ended,)

    def group_deleted(self, cluster: Cluster, key: str) -> None:
        cluster.tables.of(Ended).keys[key] = cluster.position


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The plugin is installed for the test."""
    FEATURES.policy_table.add(CountsEnded)
    yield
    del FEATURES.policy_table.plugins[CountsEnded.name]


def policy(*names: str) -> dict[str, object]:
    """A policy that names these plugins, too."""
    named = [{"name": one} for one in ("gang", *names)]
    return {"actions": "allocate", "tiers": [{"plugins": named}]}


def begun() -> EngineHarness:
    """One pod group was deleted."""
    harness = EngineHarness(policy=policy(CountsEnded.name))
    harness.show_all("Pod", pod("a"), pod("b"))
    harness.see(gone(pod("a")))
    return harness


def ended(state: State) -> list[str]:
    """Names of the pods whose groups were deleted."""
    return [key.rpartition("-")[2] for key in state.cluster.tables.of(Ended).keys]


def test_a_snapshot_and_a_fork_have_the_table() -> None:
    harness = begun()
    fork, restored = harness.state.fork(), restore(take(harness.state), FEATURES)
    harness.see(gone(pod("b")))
    assert ended(harness.state) == ["a", "b"]
    assert ended(fork) == ended(restored) == ["a"]
    assert take(restore(take(harness.state), FEATURES)) == take(harness.state)


def test_a_policy_without_the_plugin_has_no_table_and_one_with_it_again_an_empty_one() -> None:
    harness = begun()
    harness.change_policy(policy(CountsEnded.name, "priority"))
    assert ended(harness.state) == ["a"]
    harness.change_policy(policy())
    with pytest.raises(KeyError):
        harness.state.cluster.tables.of(Ended)
    harness.change_policy(policy(CountsEnded.name))
    assert ended(harness.state) == []
