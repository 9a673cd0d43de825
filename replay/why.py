"""Explain a pod, a pod group, a node or a queue at any moment of the log.

Explanations are not stored. An inquiry folds the log up to the moment asked for into a State of its own: from the
beginning, or from a State in the middle of it. Where a record is the decision about the subject, the State just before it is the one that the decision was made
in, so the scores of all nodes are computed again there; at the end, what still waits is judged with the functions
that decide.
"""

from collections.abc import Iterable
from typing import Final

from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.errors import UsageError
from events.record import Record
from features.table import FEATURES
from projections.left_out import LeftOut
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.state import State
from replay.log_time import HEAD, LogTime, format_time
from replay.node_rows import PodNodes, pod_nodes
from replay.why_answer import Answer, Step
from replay.why_state import (
    Standing,
    group_standing,
    node_standing,
    pod_standing,
    queue_standing,
)
from replay.why_subject import candidates
from replay.why_trail import LoggedEvent, Recent, Trail, is_repeated, without_repeated
from scheduling.decide import Decider
from scheduling.explanation import Choice, EveryNode, Explanation, PlacedPod, Subject

CHOICES_MAX: Final = 3
"""Pods of a gang whose nodes are explained: the first of each equivalence class."""
SUGGESTIONS_MAX: Final = 3


class Inquiry:
    """Takes the records of a log in order, from the first, and then answers.

    `base` is the position before the first record. Before the position `since`, only the records of a node or queue itself are
    followed, and not what was decided about it or happened to its pods. Raises UsageError for an invalid subject.
    """

    def __init__(
        self,
        subject: str,
        moment: LogTime = HEAD,
        *,
        base: int = 0,
        since: int = 0,
        left_out: LeftOut | None = None,
        with_every_node: bool = False,
    ) -> None:
        self.state = State(FEATURES, left_out)
        self.state.begin_at(base)
        self._text = subject
        self._moment = moment
        self._since = since
        self._with_every_node = with_every_node
        self._trails = [Trail(kind, key) for kind, key in candidates(subject)]
        self._decider = Decider(self.state)
        self._recent = Recent()
        self._start_ns: int | None = None
        self._at_ns = 0
        self._choices: dict[str, tuple[int, int, tuple[Choice, ...]]] = {}
        self._nodes: dict[str, tuple[PodNodes, ...]] = {}

    def take(self, record: Record, content: bytes | None) -> bool:
        """Take one record; return False if it is after the moment, and no more are needed."""
        if self._start_ns is None:
            self._start_ns = record.recorded_at_ns
        if not self._moment.includes(record.position, record.recorded_at_ns, self._start_ns):
            return False
        self._at_ns = record.recorded_at_ns
        entry = LoggedEvent(
            record,
            event_of(record),
            content,
            self._start_ns,
            is_shadow=self.state.cluster.is_shadow,
        )
        cluster = self.state.cluster
        is_known = is_repeated(entry, cluster)
        trails = [one for one in self._trails if self._is_followed(one, record)]
        concerned = [one for one in trails if one.concerns(entry, cluster)]
        hosts = [one for one in trails if one.is_host(entry, cluster)]
        if isinstance(entry.event, GangBindDecided):
            for trail in concerned:
                self._choose(trail, record, entry.event)
        self.state.apply(record, entry.event, content)
        self.state.settle()
        self._recent.note(entry)
        pod = cluster.pods.get(getattr(entry.event, "uid", ""))
        for trail in trails:
            matters = trail in concerned or trail.concerns(entry, cluster)
            matters = matters or (trail in hosts) != trail.is_host(entry, cluster)
            if trail.kind == "Pod" and pod is not None and pod.key == trail.key:
                trail.pod = pod
            if matters and not is_known:
                trail.add(entry, self._recent, status=pod.status if pod is not None else "")
        return True

    def add_own(self, entries: Iterable[LoggedEvent]) -> None:
        """Add records of the subject itself, in order, that are before those that are taken."""
        [trail] = self._trails
        for entry in without_repeated(entries):
            trail.add(entry, self._recent, status="")

    def has(self, kind: str, key: str) -> bool:
        """Return True if the cluster has an object of a kind and key now."""
        return _has(self.state, kind, key)

    def unknown(self) -> UsageError:
        """Return the error for a subject that is not in the log."""
        return UsageError(self._unknown())

    def go_to(self, state: State, at_ns: int, start_ns: int) -> None:
        """Go to a State of a log that began at `start_ns`; its last record was written at `at_ns`."""
        self.state, self._decider = state, Decider(state)
        self._at_ns, self._start_ns = at_ns, start_ns

    def explain_placement(self, trail: Trail, placed: LoggedEvent) -> None:
        """Compute again how the nodes were scored for a subject, in the State just before the decision that placed it."""
        if isinstance(placed.event, GangBindDecided):
            self._choose(trail, placed.record, placed.event)

    def answer_for(self, trail: Trail, position: int) -> Answer:
        """Return the answer at a position for a subject whose records were followed elsewhere, and that is as it is in State."""
        return self._answer(trail, position)

    def answer(self) -> Answer:
        """Return the answer at the moment asked for; more records may be taken afterwards.

        Raises UsageError for an unknown subject.
        """
        asked = self._moment.position
        if asked is not None and asked > self.state.position:
            raise UsageError(f"position {asked} is after the end of the log, {self.state.position}")
        for trail in self._trails:
            if self._is_there(trail):
                return self._answer(trail)
        for trail in self._trails:
            if trail.is_seen:
                return self._answer(trail)
        raise UsageError(self._unknown())

    def _is_followed(self, trail: Trail, record: Record) -> bool:
        is_whole = trail.kind in ("Pod", "PodGroup") or record.position >= self._since
        return is_whole or record.subject == trail.subject

    def _choose(self, trail: Trail, record: Record, event: GangBindDecided) -> None:
        """Compute again how the nodes were scored when the subject was placed."""
        cluster = self.state.cluster
        group = cluster.groups.get(event.pod_group)
        if trail.kind not in ("Pod", "PodGroup") or group is None:
            return
        uids: dict[object, str] = {}
        for placement in event.placements:
            pod = cluster.pods.get(placement.uid)
            if pod is not None and (trail.kind == "PodGroup" or placement.pod == trail.key):
                uids.setdefault(pod.pod_class.index, placement.uid)
        every = self._with_every_node
        placed = [PlacedPod(group, event, uid, every) for uid in list(uids.values())[:CHOICES_MAX]]
        found = [self._decider.explain(one) for one in placed]
        kept = tuple(one.choice for one in found if one.choice is not None)
        self._nodes[trail.subject] = tuple(pod_nodes(pod) for one in found for pod in one.judged)
        self._choices[trail.subject] = (record.position, record.cycle or 0, kept)

    def _is_there(self, trail: Trail) -> bool:
        if trail.kind == "Pod":
            return trail.pod is not None and trail.pod.facts.uid in self.state.cluster.pods
        return _has(self.state, trail.kind, trail.key)

    def _answer(self, trail: Trail, position: int | None = None) -> Answer:
        explained = Explanation()
        nodes = self._nodes.get(trail.subject, ())
        if self._is_there(trail):
            # What still waits is tried again, and nodes may have come since the columns were laid out.
            state = self.state.fork()
            state.cluster.nodes.lay_out()
            subject = _to_explain(state, trail)
            decider = Decider(state)
            explained = decider.explain(subject) if subject is not None else explained
            if self._with_every_node and isinstance(subject, PodGroup):
                nodes += tuple(map(pod_nodes, decider.explain(EveryNode(subject)).judged))
            standing = _standing(state, trail, explained)
        else:
            standing = _gone(trail)
        decision, cycle, choices = self._choices.get(trail.subject, (0, 0, ()))
        return Answer(
            subject=trail.subject,
            position=self.state.position if position is None else position,
            at=format_time(self._at_ns, self._start_ns or 0),
            at_ns=self._at_ns,
            state=standing.state,
            facts=standing.facts,
            steps=tuple(trail.steps),
            steps_left_out=trail.left_out,
            choices=choices,
            decision=decision,
            cycle=cycle,
            waiting=explained.waiting,
            nodes=nodes,
            lists=standing.lists,
            steps_since=0 if trail.kind in ("Pod", "PodGroup") else self._since,
        )

    def _unknown(self) -> str:
        cluster = self.state.cluster
        name = self._text.strip().rpartition("/")[2]
        keys = {pod.key for pod in cluster.pods.values()} | set(cluster.groups)
        near = sorted(key for key in keys if key.rpartition("/")[2] == name)[:SUGGESTIONS_MAX]
        hint = f"; there is {', '.join(near)}" if near else ""
        when = format_time(self._at_ns, self._start_ns or 0)
        return (
            f"{self._text!r} is not in the log up to position {self.state.position} ({when}){hint}"
        )


def _has(state: State, kind: str, key: str) -> bool:
    cluster = state.cluster
    match kind:
        case "Pod":
            return any(pod.key == key for pod in cluster.pods.values())
        case "PodGroup":
            return key in cluster.groups
        case "Node":
            return key in cluster.nodes.nodes
        case _:
            return key in cluster.queues


def _to_explain(state: State, trail: Trail) -> Subject | None:
    """Return what the decider is asked about: the group of a waiting pod, a group, or a present node."""
    cluster = state.cluster
    match trail.kind:
        case "PodGroup":
            return cluster.groups.get(trail.key)
        case "Node":
            node = cluster.nodes.nodes[trail.key]
            return None if node.facts is None else node
        case "Pod" if trail.pod is not None:
            # A decision may have changed it since its last record.
            pod = cluster.pods[trail.pod.facts.uid]
            return None if pod.node else cluster.groups.get(pod.group_key)
        case _:
            return None


def _standing(state: State, trail: Trail, explained: Explanation) -> Standing:
    cluster = state.cluster
    match trail.kind:
        case "Pod":
            pod: Pod | None = trail.pod
            assert pod is not None
            return pod_standing(state, cluster.pods[pod.facts.uid], explained.waiting)
        case "PodGroup":
            return group_standing(cluster.groups[trail.key], explained.waiting)
        case "Node":
            return node_standing(state, cluster.nodes.nodes[trail.key], explained.excluded)
        case _:
            return queue_standing(state, cluster.queues[trail.key])


def _gone(trail: Trail) -> Standing:
    steps: list[Step] = [one for one in trail.steps if "_deleted." in one.kind]
    last = steps[-1] if steps else trail.steps[-1]
    text = f"gone since {last.position} ({last.at})"
    pod = trail.pod
    if pod is None:
        return Standing(text, {})
    text += f"; last seen {pod.facts.phase}" + (f" on {pod.node}" if pod.node else "")
    return Standing(text, {"pod group": pod.group_key, "uid": pod.facts.uid})
