"""Leaf switches (ToR): the place of each node under them, and the jobs on each switch.

A job is on a switch with each of its pods that is placed on a node under it. The decision that placed a pod says what the
switch is for the pod (`Attributes`); pods that another scheduler placed say so by their annotations. What a switch is
(`SwitchState`) follows from its pods alone, so it changes back when they are gone.

A job crosses switches if its pods are under several ones, or if a pod says so: it still does when only those under one
switch are left. While a job is restarted after a fault, its pods that are gone and not replaced yet count where they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from features.ascend.network_labels import (
    CLASS_LABEL,
    CLASSES,
    IS_HEALTHY,
    IS_SHARED,
    LARGE_MODEL,
)
from features.leaf_switches.switch_map import SWITCH_MAP, LeafSwitch, SwitchMap
from projections.cluster import Cluster
from projections.deltas import (
    NodeChanged,
    PodChanged,
    PodGroupChanged,
    RestartChanged,
)
from projections.index import Index
from projections.nodes import NodeTable
from projections.pod_terms import Labels
from projections.pods import Pod

IDLE, SHARED, EXCLUSIVE = 0, 1, 2
"""Values of `isSharedTor`."""

STATES: Final = ("idle", "shared", "exclusive")

NO_MAP: Final = SwitchMap()

VIEW: Final = "switch_state"
"""The view with a row for each switch."""


class Place(Struct, frozen=True, array_like=True, gc=False):
    """Where a node is."""

    switch: int
    """Number of the switch in the map."""
    position: int


class Attributes(Struct, frozen=True, array_like=True, gc=False):
    """What a switch is for a pod on it."""

    job_class: str
    """The label of its job: one of `CLASSES`."""
    is_shared: int = IDLE
    is_unhealthy: bool = False


class SwitchState(Struct, frozen=True, gc=False):
    """What a leaf switch is for jobs that are to be placed."""

    is_shared: int = IDLE
    is_unhealthy: bool = False
    crossing: tuple[str, ...] = ()
    """Keys of the jobs on it that cross switches, sorted."""
    large: tuple[str, ...] = ()
    """Those of them that are foundation jobs."""

    @property
    def text(self) -> str:
        """Return it in words."""
        return STATES[self.is_shared] + (", unhealthy" if self.is_unhealthy else "")


UNUSED: Final = SwitchState()
"""What a switch without jobs is."""


class LeafSwitches(Index):
    """The nodes under each leaf switch and the jobs on it."""

    name = "leaf switches"
    COMPARED: ClassVar[tuple[str, ...]] = (
        *("places", "pods", "switches_of", "lost", "lost_of", "numbers", "nodes_under"),
    )

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        """Node to its place; without those under no switch, and those that share their address with another node."""
        self.pods: dict[int, dict[str, dict[str, Attributes]]] = {}
        """Switch to pod group to UID of a placed pod, for jobs of a class."""
        self.switches_of: dict[str, dict[int, int]] = {}
        """Pod group to switch to the number of its pods there."""
        self.lost: dict[int, dict[str, dict[str, Attributes]]] = {}
        """Switch to pod group to UID of a pod that is gone and not replaced, for jobs that are restarted after a fault."""
        self.lost_of: dict[str, dict[str, int]] = {}
        """Pod group to UID of such a pod to its switch."""
        self.numbers: dict[str, int] = {}
        """Name of a switch to its number in the map."""
        self.nodes_under: dict[int, int] = {}
        """Switch to the number of nodes under it."""
        self.changed_at = 0
        """Position of the last record that changed what a switch is or carries."""
        self.reported_at = 0
        """Position of the last change that was written for operators."""
        self._by_address: dict[str, dict[str, None]] = {}
        """Address to the nodes that have it."""
        self._names: list[str] = []
        self._at: dict[str, Place] = {}
        """Address to its place in the map."""
        self._on: dict[str, tuple[int, str, Attributes]] = {}
        """UID of a pod to the switch and the pod group under which it is kept."""
        self._classes: dict[str, str] = {}
        """Pod group to the class that its object states, if any."""
        self._slots: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
        """Layout of the node table, and `slots` of it, while no place has changed."""
        self._touched: dict[int, None] = {}
        """Switches that may have changed since rows were last marked."""

    def rebuilt(self, cluster: Cluster, /) -> LeafSwitches:
        """Place all nodes and pods again."""
        twin = LeafSwitches()
        twin._take_map(cluster)
        for name, node in cluster.nodes.nodes.items():
            if node.facts is not None and node.facts.address:
                twin._by_address.setdefault(node.facts.address, {})[name] = None
        for address in twin._at:
            for name, place in twin._places_of(address):
                twin._put(name, place)
        for key, group in cluster.groups.items():
            if found := _stated_class(
                group.observed.facts.device_options if group.observed.facts else ()
            ):
                twin._classes[key] = found
        for pod in cluster.pods.values():
            twin._add(pod)
        for key in cluster.reschedulings.restarts:
            twin._update_lost(cluster, key)
        twin._touched = {}
        return twin

    def rebuild(self, cluster: Cluster) -> None:
        """Compute the index again in its place."""
        reported_at = self.reported_at
        self.__dict__.update(self.rebuilt(cluster).__dict__)
        self.changed_at, self.reported_at = cluster.position, reported_at

    def mark_rows(self, cluster: Cluster) -> None:
        """Mark the rows of all switches, and of the nodes under them, as changed."""
        cluster.changed_rows.topology.update(dict.fromkeys(self.places))
        cluster.changed_rows.mark(VIEW, self.numbers)

    def change_map(self, cluster: Cluster) -> None:
        """Place all nodes again for another map. Pods stay where they are."""
        self.mark_rows(cluster)
        self.rebuild(cluster)
        self.mark_rows(cluster)
        for name in self.places:
            cluster.mark_node_freed(name)

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        """Place a node whose address has changed, and nodes that shared it or share it now."""
        old = "" if delta.old is None else delta.old.address
        new = "" if delta.new is None else delta.new.address
        facts = delta.new or delta.old
        if old == new or facts is None:
            return
        if old:
            having = self._by_address.get(old, {})
            having.pop(facts.name, None)
            if not having:
                self._by_address.pop(old, None)
        if new:
            self._by_address.setdefault(new, {})[facts.name] = None
        moved: list[tuple[str, Place | None]] = [(facts.name, None)]
        for address in filter(self._at.__contains__, (old, new)):
            moved += self._places_of(address)
        for name, place in moved:
            if self.places.get(name) != place:
                self._put(name, place)
                cluster.changed_rows.topology[name] = None
                node = cluster.nodes.nodes.get(name)
                for uid in () if node is None else node.pods:
                    self._remove(uid)
                    self._add(cluster.pods[uid])
        if self._touched:
            for key in cluster.reschedulings.restarts:
                self._update_lost(cluster, key)
        if self._touched:
            self._mark(cluster)

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Keep where pods are, if the nodes are under leaf switches."""
        for one in changes if self.places else ():
            cluster.position = one.position
            self._keep_pod(cluster, one)

    def _keep_pod(self, cluster: Cluster, delta: PodChanged) -> None:
        uid = (delta.new or delta.old).facts.uid  # type: ignore[union-attr]  # one of them is there
        kept = self._on.get(uid)
        if kept is not None and delta.new is not None and self._entry(delta.new) == kept:
            return
        self._remove(uid)
        if delta.new is not None:
            self._add(delta.new)
        elif delta.old is not None and delta.old.group_key in cluster.reschedulings.restarts:
            self._update_lost(cluster, delta.old.group_key)
        if self._touched:
            self._mark(cluster)

    def on_restart(self, cluster: Cluster, delta: RestartChanged) -> None:
        """Keep where the pods were that a job lost, until they are replaced or its restart is over."""
        self._update_lost(cluster, delta.key)
        if self._touched:
            self._mark(cluster)

    def on_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Keep the pods of groups whose class has changed."""
        for one in changes:
            facts = one.group.observed.facts
            if self._classes or (facts is not None and facts.device_options):
                cluster.position = one.position
                self._classify(cluster, one)

    def _classify(self, cluster: Cluster, delta: PodGroupChanged) -> None:
        group = delta.group
        facts = None if delta.is_gone else group.observed.facts
        stated = _stated_class(facts.device_options) if facts and facts.device_options else ""
        if stated == self._classes.get(group.key, ""):
            return
        if stated:
            self._classes[group.key] = stated
        else:
            self._classes.pop(group.key, None)
        for uid, pod in group.pods.items():
            self._remove(uid)
            self._add(pod)
        if self._touched:
            self._mark(cluster)

    def slots(self, table: NodeTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return switch and position of each node, slot by slot; -1 for none. Do not modify the result."""
        if self._slots is None or self._slots[0] != table.layout:
            nowhere = Place(-1, -1)
            places = [self.places.get(node.name, nowhere) for node in table.order]
            self._slots = (
                table.layout,
                np.array([one.switch for one in places], dtype=np.int64),
                np.array([one.position for one in places], dtype=np.int64),
            )
        return self._slots[1], self._slots[2]

    def used_by(self, key: str) -> dict[int, None]:
        """Return the switches of a job: of its pods, and of those that it lost in a restart."""
        return {
            **dict.fromkeys(self.switches_of.get(key, ())),
            **dict.fromkeys(self.lost_of.get(key, {}).values()),
        }

    def crosses(self, key: str) -> bool:
        """Return whether a job crosses switches: it is under several ones, or the annotation of a pod says so."""
        used = self.used_by(key)
        return len(used) > 1 or any(
            one.is_shared != IDLE for number in used for one in self._of_job(number, key)
        )

    def state_of(self, number: int, switch: LeafSwitch, without: str = "") -> SwitchState:
        """Return what a switch is: of the map as long as no job crosses it, else of the pods of those jobs; `without` a
        job."""
        jobs = self.pods.get(number, {}), self.lost.get(number, {})
        keys = sorted({**jobs[0], **jobs[1]}) if jobs[0] or jobs[1] else ()
        found = {
            key: self._of_job(number, key) for key in keys if key != without and self.crosses(key)
        }
        if not found:
            return SwitchState(switch.is_shared, switch.is_unhealthy)
        pods = [one for own in found.values() for one in own]
        is_unhealthy = any(one.is_unhealthy for one in pods)
        is_shared = len(found) > 1 or is_unhealthy or any(one.is_shared == SHARED for one in pods)
        return SwitchState(
            is_shared=SHARED if is_shared else EXCLUSIVE,
            is_unhealthy=is_unhealthy,
            crossing=tuple(found),
            large=tuple(
                key
                for key, own in found.items()
                if any(one.job_class == LARGE_MODEL for one in own)
            ),
        )

    def class_of(self, pod: Pod) -> str:
        """Return the class of the job of a pod: of the label of the pod, else of its pod group; empty without one. That of a pod
        that muster bound is the one by which it was placed."""
        own = _stated_class(pod.pod_class.device_options)
        return own or (
            _stated_class(pod.decided.network)
            if pod.decision
            else self._classes.get(pod.group_key, "")
        )

    def class_of_group(self, key: str) -> Labels:
        """Return the class that a pod group states, as an annotation; empty if it states none."""
        stated = self._classes.get(key, "")
        return ((CLASS_LABEL, stated),) if stated else ()

    def _of_job(self, number: int, key: str) -> list[Attributes]:
        """Return what a switch is for the pods of a job."""
        own, lost = self.pods.get(number, {}), self.lost.get(number, {})
        return [*own.get(key, {}).values(), *lost.get(key, {}).values()]

    def _take_map(self, cluster: Cluster) -> None:
        switches = switch_map(cluster).switches
        self.numbers = {switch.name: number for number, switch in enumerate(switches)}
        self._names = [*self.numbers]
        self._at = {
            server.address: Place(number, server.position)
            for number, switch in enumerate(switches)
            for server in switch.servers
        }

    def _places_of(self, address: str) -> list[tuple[str, Place | None]]:
        """Return the nodes with an address of the map, and their place: none if several have it."""
        names = self._by_address.get(address, {})
        place = self._at[address] if len(names) == 1 else None
        return [(name, place) for name in names]

    def _put(self, name: str, place: Place | None) -> None:
        self._slots = None
        before = self.places.pop(name, None)
        if before is not None:
            self.nodes_under[before.switch] -= 1
            if not self.nodes_under[before.switch]:
                del self.nodes_under[before.switch]
            self._touched[before.switch] = None
        if place is not None:
            self.places[name] = place
            self.nodes_under[place.switch] = self.nodes_under.get(place.switch, 0) + 1
            self._touched[place.switch] = None

    def _add(self, pod: Pod) -> None:
        entry = self._entry(pod)
        if entry is None:
            return
        switch, key, attributes = entry
        self._on[pod.facts.uid] = entry
        self.pods.setdefault(switch, {}).setdefault(key, {})[pod.facts.uid] = attributes
        counts = self.switches_of.setdefault(key, {})
        counts[switch] = counts.get(switch, 0) + 1
        self._touch(switch, counts)

    def _entry(self, pod: Pod) -> tuple[int, str, Attributes] | None:
        """Return switch, pod group and attributes of a pod that is to be kept; None if it is not."""
        if not pod.node or not pod.pod_class.asked_devices or not pod.occupies:
            return None
        place = self.places.get(pod.node)
        attributes = _attributes(pod, self.class_of(pod)) if place else None
        if place is None or attributes is None:
            return None
        return place.switch, pod.group_key, attributes

    def _remove(self, uid: str) -> None:
        found = self._on.pop(uid, None)
        if found is None:
            return
        switch, key, _ = found
        jobs, counts = self.pods[switch], self.switches_of[key]
        del jobs[key][uid]
        counts[switch] -= 1
        if not counts[switch]:
            del jobs[key], counts[switch]
        self._touch(switch, counts)
        if not jobs:
            del self.pods[switch]
        if not counts:
            del self.switches_of[key]

    def _update_lost(self, cluster: Cluster, key: str) -> None:
        """Compute again which pods a job that is restarted has lost, and where they were."""
        before = self.lost_of.pop(key, {})
        for uid, number in before.items():
            of_switch = self.lost[number]
            del of_switch[key][uid]
            if not of_switch[key]:
                del of_switch[key]
            if not of_switch:
                del self.lost[number]
        restart = cluster.reschedulings.restarts.get(key)
        now: dict[str, int] = {}
        for one, network in () if restart is None else restart.lost(cluster.pods):
            place, attributes = self.places.get(one.node), _given(dict(network))
            if place is not None and attributes is not None:
                now[one.uid] = place.switch
                self.lost.setdefault(place.switch, {}).setdefault(key, {})[one.uid] = attributes
        if now:
            self.lost_of[key] = now
        if now != before:
            used = (*before.values(), *now.values(), *self.switches_of.get(key, ()))
            self._touched.update(dict.fromkeys(used))

    def _touch(self, switch: int, counts: Mapping[int, int]) -> None:
        """Note that a switch may have changed; also the others of a job that may begin or end to cross switches."""
        self._touched[switch] = None
        if len(counts) <= 2:
            self._touched.update(dict.fromkeys(counts))

    def _mark(self, cluster: Cluster) -> None:
        self.changed_at = cluster.position
        cluster.changed_rows.mark(VIEW, [self._names[number] for number in self._touched])
        self._touched = {}


def known_switches(cluster: Cluster) -> tuple[LeafSwitches, tuple[LeafSwitch, ...]]:
    """Return the index and the switches of the map, by number; none if the policy does not name the feature."""
    index = cluster.indexes.find(LeafSwitches)
    return (LeafSwitches(), ()) if index is None else (index, switch_map(cluster).switches)


def switch_map(cluster: Cluster) -> SwitchMap:
    """Return the map of leaf switches; an empty one if there is none."""
    for found in cluster.object_facts.get(SWITCH_MAP.kind, {}).values():
        assert isinstance(found, SwitchMap)
        return found
    return NO_MAP


def _stated_class(options: tuple[tuple[str, str], ...]) -> str:
    return next((value for key, value in options if key == CLASS_LABEL), "")


def _attributes(pod: Pod, job_class: str) -> Attributes | None:
    """Return what the switch of a pod is for it; None if its job is not placed by leaf switches."""
    return _given({**dict(pod.network_annotations), CLASS_LABEL: job_class})


def _given(given: Mapping[str, str]) -> Attributes | None:
    """Return what a switch is for a pod by the class of its job and its annotations; None if its job has no class."""
    job_class = given.get(CLASS_LABEL, "")
    if job_class not in CLASSES:
        return None
    is_shared = given.get(IS_SHARED, "")
    return Attributes(
        job_class=job_class,
        is_shared=int(is_shared) if is_shared in ("1", "2") else IDLE,
        is_unhealthy=given.get(IS_HEALTHY) == "1",
    )
