"""Filters of records: by subject, kind, queue and node."""

from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.decision import Decision
from events.record import Record
from events.union import Event
from replay.record_scope import Scope, nodes_named

OF_OBJECTS = (ObjectObserved, ObjectDeleted, ObjectUnreadable)


class RecordFilter(Struct, frozen=True):
    """Which records are wanted. A record passes if it passes each filter that is given."""

    subjects: frozenset[str] = frozenset()
    """Subjects of records (`Pod/default/a`, `Node//n1`); a decision is also about the pods and nodes that it names."""
    record_kinds: frozenset[str] = frozenset()
    """Kinds of records, such as `pod_bound.v1`."""
    object_kinds: frozenset[str] = frozenset()
    """Kinds of Kubernetes objects, whose observations pass as if their kinds of records were named."""
    queue: str = ""
    node: str = ""

    @property
    def is_empty(self) -> bool:
        """Return True if every record passes."""
        return self == RecordFilter()

    @property
    def needs_state(self) -> bool:
        """Return True if State is needed: which node and queue a pod has is not in its records."""
        return bool(self.queue or self.node)

    def passes(self, record: Record, event: Event, scope: Scope) -> bool:
        """Return True if a record is wanted. `scope` is empty where no State is needed."""
        if (self.record_kinds or self.object_kinds) and not self._is_of_kind(record, event):
            return False
        if self.queue and self.queue not in scope.queues:
            return False
        if self.node and self.node not in scope.nodes:
            return False
        return not self.subjects or self._is_about(record, event)

    def _is_of_kind(self, record: Record, event: Event) -> bool:
        if record.kind in self.record_kinds:
            return True
        return (
            isinstance(event, OF_OBJECTS) and record.subject.partition("/")[0] in self.object_kinds
        )

    def _is_about(self, record: Record, event: Event) -> bool:
        if record.subject in self.subjects:
            return True
        named = [f"Node//{one}" for one in nodes_named(event)]
        if isinstance(event, Decision):
            named += [f"Pod/{one.pod}" for one in (*event.pods, *event.items()) if one.pod]
            named.append(f"PodGroup/{event.beneficiary}")
            named.append(f"Queue//{getattr(event, 'queue', '')}")
        else:
            named.append(f"Pod/{getattr(event, 'pod', '')}")
        return not self.subjects.isdisjoint(named)
