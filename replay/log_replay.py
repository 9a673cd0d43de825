"""Replay of a log: fold every record, decide again, and compare with the recorded decisions.

A replay stops at the first divergence and shows both sides. Under the same decider version a divergence is a bug;
under another one it is what that version changed.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from events.chain import check_link
from events.codec import encode, event_of
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned
from events.decision import Decision
from events.errors import UsageError
from events.record import GENESIS, Head, Record
from events.union import Derived, Event
from features.table import FEATURES
from projections.left_out import LeftOut
from projections.policy.policy import parse_policy
from projections.state import State
from scheduling.decide import DECIDER, Decider

NEW_BEGINNINGS = ("cycle_opened.", "daemon_started.")
"""Kinds of records that may come at any time: the cycle itself, and a daemon that was down."""

LATE_NS = 5_000_000_000
"""How much later than its period a cycle may be before a replay calls it missed."""


class Side(Struct, frozen=True):
    """One side of a divergence: the recorded event, or the event decided now."""

    kind: str
    subject: str
    body: bytes


class Divergence(Struct, frozen=True):
    """The first difference between a replay and the log."""

    position: int
    """The position of the record that differs, or of the missing one."""
    what: str
    recorded: Side | None
    """None if the log has no record there."""
    decided: Side | None
    """None if nothing is decided now."""
    cycle: int
    """Position of the cycle; 0 outside of one."""
    causes: tuple[int, ...]
    """Positions of the records that led to either side."""
    decider: int
    """The recorded decider version; 0 if there is none."""
    plugins: str = ""
    """How the plugins beside muster differ from those of the record; empty if they do not."""

    @property
    def is_of_another_version(self) -> bool:
        """Return True if another version of the deciding code or of a plugin wrote the record."""
        return self.decider != DECIDER or bool(self.plugins)


class Counts(Struct):
    """What a replay has read so far."""

    records: int = 0
    cycles: int = 0
    decisions: int = 0


class Replay:
    """Takes the records of a log in order, from the first.

    `base` is the head before the first record, and `state` State there, if the log does not begin with position 1.
    With `policy` (a JSON document) every policy of the log is replaced by it. The chain is checked. After an
    ApplyError, replay again without that record (`projections/left_out.py`).
    """

    def __init__(
        self,
        base: Head = GENESIS,
        *,
        policy: bytes | None = None,
        state: State | None = None,
        left_out: LeftOut | None = None,
    ) -> None:
        if state is None:
            state = State(FEATURES, left_out)
            state.begin_at(base.position)
        state.settle()
        self.state = state
        self.head = base
        self.counts = Counts()
        self._decider = Decider(self.state)
        self._policy = policy
        self._decided: Iterator[Derived] | None = None
        self._expected: Derived | None = None
        self._cycle = 0
        self._version = DECIDER
        self._plugins = ""
        self._unknown_plugins: dict[str, str] = {}
        """Message of a warning about a plugin that is not installed, to its name."""
        self._batch = 0
        self._due_since_ns: int | None = None
        self._at_ns = 0

    @property
    def examined(self) -> int:
        """Return how often a node was scored for an equivalence class."""
        return self._decider.examined

    @property
    def is_cycle_due(self) -> bool:
        """Return whether a cycle was due before the last batch and has not been held."""
        return self._due_since_ns is not None

    def go_on(self, last: Record, cycle: tuple[Record, CycleOpened] | None) -> None:
        """Compare from the next record on as if the log had been compared up to here.

        `last` is the last record before, and `cycle` the last one that opened a cycle.
        """
        self._batch, self._at_ns = last.batch, last.recorded_at_ns
        if cycle is not None:
            self._version = cycle[1].decider
            self._plugins = self._compare_plugins(*cycle)

    def fold(self, record: Record, content: bytes | None) -> None:
        """Take one record without comparing: the comparison begins behind it."""
        self.head = check_link(self.head, record)
        event = event_of(record)
        if isinstance(event, PolicyChanged):
            self._take_policy(record, event)
            self._decided = None
        else:
            self.state.apply(record, event, content)
        self._batch, self._at_ns = record.batch, record.recorded_at_ns

    def take(self, record: Record, content: bytes | None) -> Divergence | None:
        """Take one record; a divergence ends the replay."""
        self.head = check_link(self.head, record)
        if record.batch != self._batch and (missing := self._batch_ends(record)) is not None:
            return missing
        event = event_of(record)
        self.counts.records += 1
        if isinstance(event, CycleOpened):
            return self._open(record, event)
        if isinstance(event, Decision | PolicyWarned):
            self.counts.decisions += not isinstance(event, PolicyWarned)
            return self._compare(record, event)
        if isinstance(event, PolicyChanged):
            self._take_policy(record, event)
            return None
        if isinstance(event, DaemonStarted):
            self._due_since_ns = None
        self.state.apply(record, event, content)
        return None

    def finish(self) -> Divergence | None:
        """End the replay; return a divergence if a record is missing at the end."""
        return self._batch_ends(None)

    def _batch_ends(self, after: Record | None) -> Divergence | None:
        """Return a divergence if a decision is left between two batches, or a cycle was missed."""
        self.state.settle()
        self._expect_next()
        if self._expected is not None:
            return self._missing("a decision is missing")
        self._decided, self._cycle = None, 0
        if after is None:
            return None
        if not self._batch or not self._decider.wakes(self._at_ns):
            # The reason for a cycle may be gone before the cycle was held.
            self._due_since_ns = None
        elif self._due_since_ns is None:
            self._due_since_ns = self._at_ns
        self._batch, self._at_ns = after.batch, after.recorded_at_ns
        if self._due_since_ns is None or after.kind.startswith(NEW_BEGINNINGS):
            return None
        if after.recorded_at_ns > self._due_since_ns + 2 * self.state.period_ns + LATE_NS:
            return self._missing("a cycle was due and was not held")
        return None

    def _open(self, record: Record, event: CycleOpened) -> Divergence | None:
        self._due_since_ns = None
        self._version, self._cycle = event.decider, record.position
        self.counts.cycles += 1
        self._plugins = self._compare_plugins(record, event)
        if not self._decider.wakes(event.at_ns):
            return self._diverges(record, "a cycle was held in which nothing could change", None)
        self.state.apply(record, event, None)
        self._decided = iter(self._decider.decide())
        return None

    def _compare_plugins(self, record: Record, event: CycleOpened) -> str:
        """Return how the plugins of a cycle differ from the installed ones. Raise UsageError if one is missing."""
        if self._policy is not None:
            return ""
        now = self.state.cluster.plugins.versions
        for name, version in event.plugins.items():
            if name not in now:
                raise UsageError(
                    f"the cycle at position {record.position} was decided with plugin {name} {version}, which is not "
                    "installed"
                )
        return ", ".join(
            f"plugin {name} {event.plugins.get(name, 'not installed')}, now {version}"
            for name, version in now.items()
            if event.plugins.get(name) != version
        )

    def _check_installed(self, decided: Derived | None) -> None:
        """Raise UsageError if the policy names a plugin that was installed when the log was written."""
        if isinstance(decided, PolicyWarned) and decided.message in self._unknown_plugins:
            raise UsageError(
                f"the policy at position {self.state.policy_position} names plugin "
                f"{self._unknown_plugins[decided.message]}, which was installed when the log was written and is not "
                "installed now"
            )

    def _take_policy(self, record: Record, event: PolicyChanged) -> None:
        if self._policy is not None:
            event = PolicyChanged(source="replay", policy=msgspec.Raw(self._policy))
        self.state.apply(record, event, None)
        table = self.state.features.policy_table
        warned = parse_policy(bytes(event.policy), table)[1] if self._policy is None else ()
        self._unknown_plugins = {
            one.message: one.unknown_plugin for one in warned if one.unknown_plugin
        }
        self._decided = iter([PolicyWarned(path=one.path, message=one.message) for one in warned])

    def _compare(self, record: Record, event: Event) -> Divergence | None:
        if isinstance(event, PolicyWarned) and self._policy is not None:
            self.state.apply(record, event, None)
            return None
        self._expect_next()
        expected, self._expected = self._expected, None
        if expected is None:
            return self._diverges(record, "nothing more is decided here", None)
        if encode(expected) != (record.body if record.kind == event.kind else encode(event)):
            self._check_installed(expected)
            return self._diverges(record, "another decision", expected)
        self.state.apply(record, event, None)
        return None

    def _expect_next(self) -> None:
        if self._expected is None and self._decided is not None:
            self._expected = next(self._decided, None)

    def _missing(self, what: str) -> Divergence:
        decided, self._expected = self._expected, None
        self._check_installed(decided)
        return Divergence(
            position=self.state.position + 1,
            what=what,
            recorded=None,
            decided=_side(decided),
            cycle=self._cycle,
            causes=self._causes(decided, None),
            decider=self._version,
            plugins=self._plugins,
        )

    def _diverges(self, record: Record, what: str, decided: Derived | None) -> Divergence:
        return Divergence(
            position=record.position,
            what=what,
            recorded=Side(record.kind, record.subject, record.body),
            decided=_side(decided),
            cycle=self._cycle,
            causes=self._causes(decided, record),
            decider=self._version,
            plugins=self._plugins,
        )

    def _causes(self, decided: Derived | None, record: Record | None) -> tuple[int, ...]:
        found = {record.cause} if record is not None and record.cause else set()
        group = self.state.cluster.groups.get(getattr(decided, "pod_group", ""))
        if group is not None and group.decided.cause:
            found.add(group.decided.cause)
        return tuple(sorted(found))


def _side(event: Derived | None) -> Side | None:
    if event is None:
        return None
    if isinstance(event, Decision):
        subject = event.subject
    else:
        subject = "Policy//" if isinstance(event, PolicyWarned) else "Cycle//"
    return Side(event.kind, subject, encode(event))
