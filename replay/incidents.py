"""Find the incidents of a log: fold it, and follow faults and the restarts that name them.

An incident is a set of faults of one cause, and the restarts of jobs for them. A fault has the same cause as an earlier one
if it is seen within 5 seconds of it and

- on the same node, or
- in the same ConfigMap, or
- both are faults of whole nodes under the same leaf switch, or
- both are faults of pods alone, of the same pod group.

An incident is over when its faults are gone and its jobs run again, or are given up. A restart that names faults of two
incidents belongs to both.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.cycle import CycleOpened
from events.daemon import PolicyChanged
from events.decision import Decision
from events.decisions.enqueue import EnqueueDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.reschedule import RescheduleDecided, RestartEnded
from events.duration import SECOND, format_duration
from events.errors import UsageError
from events.outcome import BindFailed, EvictionFailed, PodEvicted
from events.record import Record
from events.subject import subject_text
from events.union import Event
from features.table import FEATURES
from projections.fault_hits import is_hit
from projections.faulty_pods import FaultyPods
from projections.left_out import LeftOut
from projections.node_faults import NODE_UNHEALTHY, SUB_HEALTH, NodeFault
from projections.state import State
from projections.views.now import topology_rows
from replay.incident_answer import FaultSeen, HitPod, Incident, IncidentReport, NotMoved
from replay.incident_faults import FaultChange, FaultTracker, Hit, TrackedFault
from replay.incident_reasons import TOLERATED, reason_not_moved
from replay.incident_restarts import AGAIN, DELETED, TrackedRestart
from replay.incident_selection import Selection
from replay.incident_steps import Timeline
from replay.log_time import LogTime, format_time
from replay.narrate import sentences

WINDOW_NS: Final = 5 * SECOND
"""Time within which faults of one cause are seen."""

INCIDENTS_MAX: Final = 10_000
"""Incidents that are over and are kept, the last ones."""

RESTARTS_MAX: Final = 1_000
"""Restarts of one incident that are kept, and jobs for which nothing was done."""

FAULTS_MAX: Final = 1_000
"""Faults of one incident; a further one begins another incident."""

_ANSWERS: Final = (EnqueueDecided, PipelineDecided, PipelineWithdrawn, PodGroupUnschedulable)


class TrackedIncident:
    """Faults of one cause, and the restarts for them."""

    def __init__(self, name: str, position: int, at_ns: int) -> None:
        self.name = name
        self.position = self.last_position = position
        self.at_ns = self.last_ns = at_ns
        self.raised_ns = at_ns
        """When its last fault was seen."""
        self.is_earlier = False
        """Whether it began before the first record, at a time that is not known."""
        self.faults: list[TrackedFault] = []
        self.restarts: list[TrackedRestart] = []
        self.restarts_left_out = 0
        self.not_moved: dict[str, NotMoved] = {}
        self.timeline = Timeline()
        self.subjects: dict[str, None] = {}
        """ConfigMaps that showed its faults."""
        self.switches: dict[str, None] = {}
        """Leaf switches under which nodes are faulty as a whole."""
        self.groups_of_pods: dict[str, None] = {}
        """Pod groups of which pods are faulty themselves."""

    @property
    def is_over(self) -> bool:
        """Return whether its faults are gone and its restarts are over."""
        return all(one.cleared_position for one in self.faults) and all(
            one.is_over for one in self.restarts
        )

    @property
    def groups_hit(self) -> list[str]:
        """Return the pod groups that it hit, sorted."""
        return sorted({hit.pod_group for one in self.faults for hit in one.hits.values()})

    def touch(self, position: int, at_ns: int) -> None:
        """Record that something happened."""
        self.last_position, self.last_ns = position, at_ns


class Incidents:
    """Takes the records of a log in order, and then answers which incidents were asked for.

    They are taken from the first one; or, with `state`, from the one behind a State, whose last record was written at `begun_ns`. The
    log began at `start_ns` then. Faults and restarts that stand there are no incidents, unless `take_standing` adds them.
    """

    def __init__(
        self,
        selection: Selection | None = None,
        *,
        left_out: LeftOut | None = None,
        state: State | None = None,
        start_ns: int | None = None,
        begun_ns: int = 0,
    ) -> None:
        self.state = State(FEATURES, left_out) if state is None else state
        self.selection = selection or Selection()
        self.left_out = 0
        """Incidents that are over and were dropped, because there are too many."""
        self._tracker = FaultTracker(self.state)
        self._open: dict[TrackedIncident, None] = {}
        """Incidents that are not over."""
        self._recent: deque[TrackedIncident] = deque()
        """Incidents whose last fault was seen within the window."""
        self._of_fault: dict[TrackedFault, TrackedIncident] = {}
        """Fault that stands to its incident."""
        self._active: dict[str, TrackedRestart] = {}
        """Pod group key to its restart that is not over."""
        self._incidents_of: dict[TrackedRestart, list[TrackedIncident]] = {}
        """Restart that is not over to its incidents."""
        self._deleting: dict[str, TrackedRestart] = {}
        """UID of a deleted pod to the restart."""
        self._to_judge: dict[tuple[TrackedIncident, str], None] = {}
        """Jobs that were hit, by incident, and of which it is said after the cycle why they are not restarted."""
        self._unmoved: dict[str, dict[TrackedIncident, None]] = {}
        """Key of a pod group that is not restarted to the incidents that hit it."""
        self._has_cycle = False
        self._done: deque[IncidentReport] = deque()
        self._nodes: dict[str, None] = {}
        self._groups: dict[str, None] = {}
        """The node and the pod group that are asked for by name, once they were there."""
        self._batch = 0
        self._start_ns = start_ns
        self._now_ns = 0
        self._begun_ns = begun_ns
        self._first_ns: int | None = None
        """When the first incident that is asked for was first seen."""
        self._base = 0 if state is None else state.position
        self._standing = self._tracker.begin(begun_ns)

    # Records

    def take_standing(self, decisions: Iterable[tuple[Record, bytes | None]]) -> None:
        """Take the faults and restarts that stand before the first record as incidents that began earlier. `decisions` are the
        records of the last decision about each restart."""
        cluster, position, at_ns = self.state.cluster, self.state.position, self._begun_ns
        of_node: dict[str, TrackedIncident] = {}
        for fault in (change.fault for change in self._standing):
            incident = of_node.get(fault.node)
            if incident is None:
                incident = of_node[fault.node] = TrackedIncident(fault.name, position, at_ns)
                incident.is_earlier = True
                self._open[incident] = None
            incident.faults.append(fault)
            self._of_fault[fault] = incident
        for record, content in decisions:
            event = event_of(record)
            if isinstance(event, RescheduleDecided):
                self._take_restart(record, event, content)
        for change in self._standing:
            fault, incident = change.fault, self._of_fault[change.fault]
            subject = f"Pod/{fault.pod}" if fault.pod else f"Node/{fault.node}"
            text = f"fault {fault.name} stands since an earlier record: {fault.text} ({fault.fault.effect})"
            details = list(map(_hit_text, change.hits))
            incident.timeline.add(position, at_ns, "fault", subject, text, details)
            for key in {hit.pod_group: None for hit in change.hits}:
                self._to_judge[incident, key] = None
        self._record_names(cluster.nodes.nodes, (*cluster.groups, *cluster.reschedulings.restarts))

    def _take_restart(
        self, record: Record, event: RescheduleDecided, content: bytes | None
    ) -> None:
        """Take a restart that was open before the first record."""
        standing = self.state.cluster.reschedulings.restarts.get(event.pod_group)
        if standing is None or standing.position != record.position:
            return
        for one in event.members:
            for fault in self._tracker.of_nodes.get(one.node, {}).values() if one.fault else ():
                if is_hit(fault.fault, one.fault, one.device, one.source):
                    fault.add_earlier_hit(self.state, event.pod_group, one)
        self._rescheduled(record, event, content)
        restart = self._active[event.pod_group]
        restart.begin_earlier(self.state, standing, self._begun_ns)
        for incident in self._incidents_of[restart]:
            incident.is_earlier = True

    def take(self, record: Record, content: bytes | None) -> bool:
        """Take one record; return False if no more are needed."""
        at_ns = record.recorded_at_ns
        if self._start_ns is None:
            self._start_ns = at_ns
        if record.batch != self._batch:
            self._end_batch()
            if self._is_answered(record):
                return False
            self._batch = record.batch
        self._now_ns = at_ns
        event = event_of(record)
        cluster = self.state.cluster
        if isinstance(event, RescheduleDecided | RestartEnded):
            self._record_names((), (event.pod_group,))
        self.state.apply(record, event, content)
        self.state.settle()
        if isinstance(event, Decision):
            # Before the pods that it deletes are no longer faulty.
            self._decided(record, event, content)
        touched = cluster.changed_rows
        if isinstance(event, PolicyChanged):
            # It says which conditions and taints are faults.
            index = cluster.indexes.of(FaultyPods)
            touched.faults.update(dict.fromkeys((*index.nodes, *self._tracker.of_nodes)))
        if touched.faults:
            self._faults_changed(record, event, content, tuple(touched.faults))
        if touched.pods:
            self._pods_changed(record, event, content, tuple(touched.pods))
        if touched.nodes or touched.groups:
            self._record_names(touched.nodes, touched.groups)
        cluster.clear_changed_rows()
        if isinstance(event, ObjectObserved):
            if self._active:
                self._pod_observed(record, event.uid)
        elif isinstance(event, ObjectDeleted):
            self._pod_gone(record, event)
        elif isinstance(event, PodEvicted | EvictionFailed | BindFailed):
            self._outcome(record, event, content)
        elif isinstance(event, CycleOpened):
            self._has_cycle = True
            for key in self.state.cycle_events.faulty_groups:
                self._to_judge.update(((one, key), None) for one in self._unmoved.get(key, ()))
        return True

    def _record_names(self, nodes: Iterable[str], groups: Iterable[str]) -> None:
        """Remember that a node or pod group that is asked for by name was there."""
        asked = self.selection
        for name in nodes:
            if name in (asked.node, asked.place.partition("/")[0]):
                self._nodes[name] = None
        for key in groups:
            if key in (asked.pod_group, asked.place):
                self._groups[key] = None

    def _end_batch(self) -> None:
        """Look at what a finished cycle did not decide, and at incidents that may be over."""
        if self._has_cycle:
            self._has_cycle = False
            for incident, key in self._to_judge:
                if key not in self._active:
                    self._judge(incident, key)
            self._to_judge.clear()
            for key in [key for key in self._active if key not in self.state.cluster.groups]:
                restart = self._active[key]
                if restart.ended_ns is not None:
                    self._end_restart(restart, self.state.position, DELETED, "the job is gone")
        while self._recent and self._recent[0].raised_ns + WINDOW_NS < self._now_ns:
            self._finish(self._recent.popleft())

    # Faults

    def _faults_changed(
        self, record: Record, event: Event, content: bytes | None, names: tuple[str, ...]
    ) -> None:
        at_ns = record.recorded_at_ns
        raised, cleared = self._tracker.update_nodes(names, record.position, at_ns)
        for change in raised:
            self._raise(record, event, content, change)
        for one in cleared:
            self._clear(record, one)

    def _pods_changed(
        self, record: Record, event: Event, content: bytes | None, uids: tuple[str, ...]
    ) -> None:
        at_ns = record.recorded_at_ns
        raised, cleared = self._tracker.update_pods(uids, record.position, at_ns)
        for change in raised:
            self._raise(record, event, content, change)
        for one in cleared:
            self._clear(record, one)

    def _pod_observed(self, record: Record, uid: str) -> None:
        """See whether all pods of a restarted job run again."""
        pod = self.state.cluster.pods.get(uid)
        restart = None if pod is None else self._active.get(pod.group_key)
        if restart is not None and restart.update_running(self.state, record.recorded_at_ns):
            text = f"all {restart.required} pods of {restart.pod_group} run again"
            self._step(restart, record, "running", text)
            if restart.ended_ns is not None:
                self._close_restart(restart)

    def _raise(
        self, record: Record, event: Event, content: bytes | None, change: FaultChange
    ) -> None:
        """Add a new fault, or pods that a known one hits newly, to its incident."""
        position, at_ns, fault = record.position, record.recorded_at_ns, change.fault
        if change.is_new:
            incident = self._incident_of(record, fault, change.hits)
            incident.faults.append(fault)
            incident.raised_ns = at_ns
            self._of_fault[fault] = incident
            details = [sentences(record, event, content)[0], *map(_hit_text, change.hits)]
            text = f"fault {fault.name}: {fault.text} ({fault.fault.effect})"
        else:
            known = self._of_fault.get(fault)
            if known is None:
                return
            incident = known
            text = f"fault {fault.name} hits more pods"
            details = list(map(_hit_text, change.hits))
        incident.touch(position, at_ns)
        subject = f"Pod/{fault.pod}" if fault.pod else f"Node/{fault.node}"
        incident.timeline.add(position, at_ns, "fault", subject, text, details)
        for key in {hit.pod_group: None for hit in change.hits}:
            self._to_judge[incident, key] = None

    def _incident_of(self, record: Record, fault: TrackedFault, hits: list[Hit]) -> TrackedIncident:
        """Return the incident of the same cause, or a new one."""
        subject = record.subject if record.subject.startswith("ConfigMap") else ""
        is_whole = fault.fault.effect in (NODE_UNHEALTHY, SUB_HEALTH) and not fault.fault.device
        switch = self._switch_of(fault.node) if is_whole and not fault.uid else ""
        groups = {hit.pod_group for hit in hits} if fault.uid else set()
        found = None
        for one in self._recent:
            if one.raised_ns + WINDOW_NS < record.recorded_at_ns or len(one.faults) >= FAULTS_MAX:
                continue
            if (
                any(fault.node == known.node for known in one.faults)
                or (subject and subject in one.subjects)
                or (switch and switch in one.switches)
                or any(key in one.groups_of_pods for key in groups)
            ):
                found = one
                break
        if found is None:
            found = TrackedIncident(fault.name, record.position, record.recorded_at_ns)
            self._open[found] = None
        else:
            self._recent.remove(found)
        self._recent.append(found)
        for kept, names in (
            (found.subjects, [subject]),
            (found.switches, [switch]),
            (found.groups_of_pods, sorted(groups)),
        ):
            kept.update((name, None) for name in names if name)
        return found

    def _switch_of(self, node: str) -> str:
        """Return the leaf switch of a node; empty if none is known."""
        rows = topology_rows(self.state.cluster, node)
        return str(rows[0][1]) if rows else ""

    def _clear(self, record: Record, fault: TrackedFault) -> None:
        """Record that a fault is gone."""
        incident = self._of_fault.pop(fault, None)
        if incident is None:
            return
        at_ns = record.recorded_at_ns
        span = format_duration(at_ns - fault.at_ns)
        span = f"more than {span}" if fault.is_earlier else span
        incident.touch(record.position, at_ns)
        subject = f"Pod/{fault.pod}" if fault.pod else f"Node/{fault.node}"
        text = f"fault {fault.name} is gone after {span}"
        details = [f"{subject_text(record.subject)} is seen"]
        if fault.pod:
            text, details = f"fault {fault.name} is over: the pod is deleted, or works again", []
        incident.timeline.add(record.position, at_ns, "cleared", subject, text, details)
        for key, reason in incident.not_moved.items():
            if reason.code == TOLERATED:
                message = f"it was gone after {span}, while it was tolerated"
                self._nothing_done(incident, key, TOLERATED, message, has_step=False)
        if incident not in self._recent:
            self._finish(incident)

    def _judge(self, incident: TrackedIncident, key: str) -> None:
        """Say why a job that was hit is not restarted."""
        group = self.state.cluster.groups.get(key)
        if group is None or any(one.pod_group == key for one in incident.restarts):
            return
        uids = [
            uid
            for one in incident.faults
            for uid, hit in one.hits.items()
            if hit.pod_group == key and not one.cleared_position
        ]
        if not uids:
            return
        code, message = reason_not_moved(self.state, group, uids, self.state.now_ns)
        self._nothing_done(incident, key, code, message)

    def _nothing_done(
        self, incident: TrackedIncident, key: str, code: str, message: str, *, has_step: bool = True
    ) -> None:
        position, at_ns = self.state.position, self._now_ns
        at = format_time(at_ns, self._start_ns or 0)
        before = incident.not_moved.get(key)
        if before is None and len(incident.not_moved) >= RESTARTS_MAX:
            return
        incident.not_moved[key] = NotMoved(key, position, at, at_ns, code, message)
        self._unmoved.setdefault(key, {})[incident] = None
        if has_step and (before is None or before.code != code):
            text = f"nothing is done for {key}: {message}"
            incident.timeline.add(position, at_ns, "nothing", f"PodGroup/{key}", text)

    def _forget_unmoved(self, incident: TrackedIncident, key: str) -> None:
        of_group = self._unmoved.get(key, {})
        of_group.pop(incident, None)
        if not of_group:
            self._unmoved.pop(key, None)

    # Decisions and outcomes

    def _decided(self, record: Record, event: Decision, content: bytes | None) -> None:
        if isinstance(event, RescheduleDecided):
            self._rescheduled(record, event, content)
            return
        key = (
            event.pod_group if isinstance(event, (*_ANSWERS, GangBindDecided, RestartEnded)) else ""
        )
        restart = self._active.get(key)
        if restart is None:
            return
        first, *more = sentences(record, event, content)
        if isinstance(event, RestartEnded):
            restart.end(record.recorded_at_ns, event.code, event.message)
            self._step(restart, record, "over", first)
            if restart.is_over:
                self._close_restart(restart)
            return
        restart.add_answer(self.state, record, event)
        if isinstance(event, PodGroupUnschedulable) and (leaving := restart.leaving(self.state)):
            more.append(f"{len(leaving)} of its deleted pods are still terminating")
        kind = "bound" if isinstance(event, GangBindDecided) else "wait"
        self._step(restart, record, kind, first, more)

    def _rescheduled(self, record: Record, event: RescheduleDecided, content: bytes | None) -> None:
        key, at_ns = event.pod_group, record.recorded_at_ns
        restart = self._active.get(key)
        is_again = restart is not None and restart.ended_ns is not None
        if restart is not None and is_again:
            self._end_restart(restart, record.position, AGAIN, "it is restarted again")
            restart = None
        named, since = self._faults_of(record, event, restart)
        if restart is None:
            begun = min([*since.values(), at_ns])
            hard = [since[fault] for fault in named if not fault.is_sub_health]
            # What was lost before counts for the restart before, if the job did not run since.
            lost = at_ns if is_again else min([*hard, at_ns])
            restart = TrackedRestart(key, event.queue, record.position, at_ns, begun, lost)
            self._active[key] = restart
            self._incidents_of[restart] = []
        self._attach(restart, named, record)
        restart.add_decision(self.state, record, event)
        self._deleting.update((one.uid, restart) for one in event.evictions)
        first, *more = sentences(record, event, content)
        self._step(restart, record, "decision", first, more)

    def _faults_of(
        self, record: Record, event: RescheduleDecided, restart: TrackedRestart | None
    ) -> tuple[dict[TrackedFault, TrackedIncident], dict[TrackedFault, int]]:
        """Return the faults that a decision names and that are new to a restart, with their incidents, and since when
        each hits its first pod."""
        named: dict[TrackedFault, TrackedIncident] = {}
        since: dict[TrackedFault, int] = {}
        for one in event.members:
            known = None if restart is None else restart.members.get(one.uid)
            if not one.fault or (known is not None and known.fault):
                continue
            standing = self._tracker.standing(one.node, one.uid, one.fault, one.device, one.source)
            if not standing:
                fault = NodeFault(one.source, one.device, one.detail, "", one.fault)
                tracked = TrackedFault(
                    one.node, fault, record.position, record.recorded_at_ns, one.uid, one.pod
                )
                tracked.cleared_position, tracked.cleared_ns = record.position, tracked.at_ns
                tracked.add_hit(self.state, one.uid, tracked.at_ns)
                incident = self._incident_of(record, tracked, list(tracked.hits.values()))
                incident.faults.append(tracked)
                named[tracked] = incident
                standing = [tracked]
            for fault_found in standing:
                hit = fault_found.hits.get(one.uid)
                begun = fault_found.at_ns if hit is None else hit.since_ns
                since[fault_found] = min(since.get(fault_found, begun), begun)
                if fault_found in self._of_fault:
                    named[fault_found] = self._of_fault[fault_found]
        return named, since

    def _attach(
        self, restart: TrackedRestart, named: dict[TrackedFault, TrackedIncident], record: Record
    ) -> None:
        """Attach a restart to the incidents of the faults that it names."""
        of = self._incidents_of[restart]
        incidents = list(named.values())
        if not incidents and not of:
            name = f"{restart.pod_group}@{record.position}"
            lost = TrackedIncident(name, record.position, record.recorded_at_ns)
            self._open[lost] = None
            incidents = [lost]
        for incident in incidents:
            if incident in of:
                continue
            of.append(incident)
            self._forget_unmoved(incident, restart.pod_group)
            incident.not_moved.pop(restart.pod_group, None)
            if len(incident.restarts) < RESTARTS_MAX:
                incident.restarts.append(restart)
            else:
                incident.restarts_left_out += 1

    def _outcome(
        self, record: Record, event: PodEvicted | EvictionFailed | BindFailed, content: bytes | None
    ) -> None:
        restart = self._deleting.get(event.uid)
        if isinstance(event, BindFailed):
            pod = self.state.cluster.pods.get(event.uid)
            restart = self._active.get(pod.group_key) if pod is not None else None
            if restart is not None:
                restart.bound_ns = None
        if restart is None:
            return
        sentence = sentences(record, event, content)[0]
        if isinstance(event, PodEvicted):
            text = f"pods of {restart.pod_group} are evicted"
            self._step(restart, record, "outcome", text, [f"{event.pod} from {event.node}"])
        else:
            self._step(restart, record, "outcome", sentence)

    def _pod_gone(self, record: Record, event: ObjectDeleted) -> None:
        restart = self._deleting.pop(event.uid, None)
        if restart is None:
            return
        left = len(restart.leaving(self.state))
        text = f"deleted pods of {restart.pod_group} are gone"
        _, _, pod = record.subject.partition("/")
        self._step(restart, record, "gone", text, [f"{pod}, {left} left"])

    def _step(
        self,
        restart: TrackedRestart,
        record: Record,
        kind: str,
        text: str,
        details: list[str] | None = None,
    ) -> None:
        subject = f"PodGroup/{restart.pod_group}"
        for incident in self._incidents_of[restart]:
            incident.touch(record.position, record.recorded_at_ns)
            incident.timeline.add(
                record.position, record.recorded_at_ns, kind, subject, text, details
            )

    # The end of restarts and incidents

    def _end_restart(
        self, restart: TrackedRestart, position: int, outcome: str, message: str
    ) -> None:
        """End a restart that another one follows, or whose job is gone."""
        restart.end(self._now_ns, outcome, message)
        for incident in self._incidents_of[restart]:
            incident.touch(position, self._now_ns)
        self._close_restart(restart)

    def _close_restart(self, restart: TrackedRestart) -> None:
        del self._active[restart.pod_group]
        for uid in restart.deleted:
            if self._deleting.get(uid) is restart:
                del self._deleting[uid]
        for incident in self._incidents_of.pop(restart):
            if incident not in self._recent:
                self._finish(incident)

    def _finish(self, incident: TrackedIncident) -> None:
        """Keep an incident that is over, if it is asked for."""
        if not incident.is_over or incident not in self._open:
            return
        del self._open[incident]
        for key in incident.not_moved:
            self._forget_unmoved(incident, key)
        if not self._is_asked_for(incident):
            return
        self._done.append(self._report(incident))
        if len(self._done) > INCIDENTS_MAX:
            self._done.popleft()
            self.left_out += 1

    # The answer

    def _is_asked_for(self, incident: TrackedIncident) -> bool:
        asked = self.selection
        if asked.moment is not None:
            return self._covers(incident, asked.moment)
        if asked.node:
            return any(one.node == asked.node for one in incident.faults)
        if asked.place:
            named = [(one.place, one.position) for one in incident.faults]
            named = named or [(incident.name.rpartition("@")[0], incident.position)]
            return any(
                place == asked.place and asked.position in (0, position)
                for place, position in named
            )
        if asked.pod_group:
            restarted = [one.pod_group for one in incident.restarts]
            return asked.pod_group in (*restarted, *incident.groups_hit)
        return True

    def _covers(self, incident: TrackedIncident, moment: LogTime) -> bool:
        start = self._start_ns or 0
        if not moment.includes(incident.position, incident.at_ns, start):
            return False
        is_before = moment.includes(incident.last_position, incident.last_ns, start)
        return not (incident.is_over and is_before) or incident.last_position == moment.position

    def _is_answered(self, record: Record) -> bool:
        """Return whether the records from this one on cannot change the answer."""
        asked = self.selection
        if asked.position:
            return bool(self._done) and not any(map(self._is_asked_for, self._open))
        if asked.moment is None:
            return False
        start = self._start_ns or 0
        if asked.moment.includes(record.position, record.recorded_at_ns, start):
            return False
        return not any(self._covers(one, asked.moment) for one in self._open)

    @property
    def is_independent(self) -> bool:
        """Return whether what was asked for was found, and faults before the first record can have no part in it."""
        return self._first_ns is not None and self._first_ns > self._begun_ns + WINDOW_NS

    def answer(self) -> list[IncidentReport]:
        """Return the incidents that are asked for, oldest first.

        Raises UsageError if a node, pod group or position is asked for that the log does not have.
        """
        self._end_batch()
        asked = self.selection
        standing = [one for one in self._open if self._is_asked_for(one)]
        found = [*self._done, *map(self._report, standing)]
        found.sort(key=lambda one: one.summary.position)
        if not found:
            self._check_names()
        moment = None if asked.moment is None else asked.moment.position
        for position, option in ((moment, "--at "), (asked.position, "--fault ...@")):
            if position is not None and position > self.state.position:
                raise UsageError(
                    f"{option}{position} is after the end of the log, {self.state.position}"
                )
        return found

    def _check_names(self) -> None:
        """Raise UsageError if what is asked for by name was never in the log."""
        asked, cluster = self.selection, self.state.cluster
        if asked.node and asked.node not in self._nodes and asked.node not in cluster.nodes.nodes:
            raise UsageError(f"node {asked.node!r} is not in the log")
        if asked.pod_group and asked.pod_group not in self._groups:
            name = asked.pod_group.rpartition("/")[2]
            near = sorted(key for key in cluster.groups if name in key)[:3]
            hint = f"; there is {', '.join(near)}" if near else ""
            raise UsageError(f"pod group {asked.pod_group!r} is not in the log{hint}")
        node = asked.place.partition("/")[0]
        if asked.place and node not in self._nodes and asked.place not in self._groups:
            raise UsageError(f"node {node!r} of the fault is not in the log")

    def _report(self, incident: TrackedIncident) -> IncidentReport:
        start = self._start_ns or 0
        if self._first_ns is None or incident.at_ns < self._first_ns:
            self._first_ns = incident.at_ns
        restarts = [one.answer(self._now_ns, start) for one in incident.restarts]
        not_moved = tuple(one for _, one in sorted(incident.not_moved.items()))
        if self.selection.is_everything:
            pods: tuple[HitPod, ...] = ()
        else:
            pods = tuple(_hit_pods(incident.faults))
        first = incident.faults[0] if incident.faults else None
        running = [one.seconds_to_running for one in restarts if one.seconds_to_running is not None]
        all_run = len(running) == len(restarts) and not incident.restarts_left_out
        restarted = tuple(dict.fromkeys(one.pod_group for one in restarts))
        summary = Incident(
            name=incident.name,
            position=incident.position,
            at=_time_text(incident.at_ns, start, is_earlier=incident.is_earlier),
            at_ns=incident.at_ns,
            last_position=incident.last_position,
            last_at=format_time(incident.last_ns, start),
            last_at_ns=incident.last_ns,
            is_over=incident.is_over,
            text="pods of a gang were lost" if first is None else first.text,
            nodes=tuple(dict.fromkeys(one.node for one in incident.faults)),
            pod_groups=tuple(incident.groups_hit),
            pods_hit=len({uid for one in incident.faults for uid in one.hits}),
            restarted=restarted,
            done=_done_text(restarted, not_moved),
            evicted=sum(one.evicted for one in restarts),
            seconds_to_decision=min(
                (
                    one.seconds_to_decision
                    for one in restarts
                    if one.seconds_to_decision is not None
                ),
                default=None,
            ),
            seconds_to_running=max(running) if running and all_run else None,
            lost_card_seconds=sum(one.lost_card_seconds for one in restarts),
        )
        if self.selection.is_everything:
            return IncidentReport(summary, (), (), (), (), (), 0)
        return IncidentReport(
            summary=summary,
            faults=tuple([_fault_seen(one, start) for one in incident.faults]),
            pods=pods,
            restarts=tuple(restarts),
            not_moved=not_moved,
            timeline=incident.timeline.steps(start, self._base),
            steps_left_out=incident.timeline.left_out,
        )


def _hit_pods(faults: Iterable[TrackedFault]) -> list[HitPod]:
    return [
        HitPod(
            pod=hit.pod,
            uid=hit.uid,
            pod_group=hit.pod_group,
            node=hit.node,
            rank=hit.rank,
            cards=hit.cards,
            devices=hit.devices,
            fault=one.name,
        )
        for one in faults
        for hit in one.hits.values()
    ]


def _fault_seen(one: TrackedFault, start_ns: int) -> FaultSeen:
    is_gone = bool(one.cleared_position)
    return FaultSeen(
        name=one.name,
        node=one.node,
        device=one.fault.device,
        source=one.fault.source,
        level=one.fault.level,
        code=one.fault.code,
        effect=one.fault.effect,
        pod=one.pod,
        position=one.position,
        at=_time_text(one.at_ns, start_ns, is_earlier=one.is_earlier),
        at_ns=one.at_ns,
        cleared_position=one.cleared_position if is_gone else None,
        cleared_at=format_time(one.cleared_ns, start_ns) if is_gone else None,
        cleared_at_ns=one.cleared_ns if is_gone else None,
        pods=one.hit_count,
    )


def _time_text(at_ns: int, start_ns: int, *, is_earlier: bool) -> str:
    """Return a time for people."""
    text = format_time(at_ns, start_ns)
    return f"before {text}" if is_earlier else text


def _hit_text(hit: Hit) -> str:
    rank = f", rank {hit.rank}" if hit.rank >= 0 else ""
    return f"hits {hit.pod} of {hit.pod_group}{rank}"


def _done_text(restarted: tuple[str, ...], not_moved: tuple[NotMoved, ...]) -> str:
    """Return what was done, for people."""
    parts = [f"restarted {', '.join(restarted[:3])}"] if restarted else []
    if len(restarted) > 3:
        parts[0] += f" and {len(restarted) - 3} more"
    if not_moved:
        codes = ", ".join(dict.fromkeys(one.code for one in not_moved))
        jobs = not_moved[0].pod_group if len(not_moved) == 1 else f"{len(not_moved)} pod groups"
        parts.append(f"nothing for {jobs} ({codes})")
    return "; ".join(parts) or "recorded only"
