"""What State says that people should know, for `/readyz` and metrics.

Nothing is looked at while a thread changes State: then what was found last is said again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from daemon.loop import Loop
from engine.engine import Engine
from engine.report_ages import StaleReports
from projections.unknown_decisions import UnknownDecisions, unknown_decisions
from projections.use_notes import open_text, unknown_text
from replay.quarantine_text import closed_nodes_text
from scheduling.quota.real_capability import RealCapability

SHOWN: Final = 5
"""Stale device reports, or queues, that are named."""

COUNTED_NS: Final = 60_000_000_000
"""Between two counts of pods with unknown decisions, which look at every pod."""


class StateWarnings:
    """Looks at the State of the term that is under way; without a term there is nothing to say."""

    def __init__(
        self,
        loop: Callable[[], Loop | None],
        is_busy: Callable[[], bool],
        elapsed_ns: Callable[[], int],
    ) -> None:
        """`loop` is that of the term, and `is_busy` whether a thread changes its State."""
        self._loop = loop
        self._is_busy = is_busy
        self._elapsed_ns = elapsed_ns
        self._stale: tuple[StaleReports, ...] = ()
        self._closed_nodes = self._unkept_guarantees = ""
        self._use = ("", "")
        """Which rules about namespaces name nothing, and what is open to all namespaces."""
        self._unknown = UnknownDecisions()
        self._counted_ns: int | None = None
        """When pods with unknown decisions were counted last."""

    @property
    def _engine(self) -> Engine | None:
        loop = self._loop()
        return None if loop is None else loop.engine

    def stale_reports(self) -> tuple[StaleReports, ...]:
        """Return the stale device reports."""
        loop, engine = self._loop(), self._engine
        if loop is None or engine is None:
            self._stale = ()
        elif not self._is_busy():
            self._stale = engine.stale_reports(loop.now_ns)
        return self._stale

    def unknown_decisions(self) -> UnknownDecisions:
        """Return the pods with decisions that the log does not have, counted once a minute; none before the first lists."""
        loop, engine = self._loop(), self._engine
        now_ns = self._elapsed_ns()
        is_old = self._counted_ns is None or now_ns - self._counted_ns >= COUNTED_NS
        if loop is None or engine is None or not loop.is_synced:
            self._unknown, self._counted_ns = UnknownDecisions(), None
        elif is_old and not self._is_busy():
            self._unknown, self._counted_ns = unknown_decisions(engine.state.cluster), now_ns
        return self._unknown

    def texts(self) -> Mapping[str, str]:
        """Return the warnings, by what they are about."""
        found: dict[str, str] = {
            f"reports/{one.kind}": f"{len(one.names)} of {one.count} not updated for "
            f"{one.seconds} s: {', '.join(one.names[:SHOWN])}"
            for one in self.stale_reports()
        }
        if (lost := self.unknown_decisions()).count:
            found["decisions"] = (
                f"{lost.count} bound pods name decisions that this log does not have, the highest {lost.highest} (pod {lost.pod}); "
                "the log may have lost its end"
            )
        if text := self._rejections():
            found["rejections"] = text
        if text := self._guarantees():
            found["guarantees"] = text
        unknown, _ = self._rules()
        if unknown:
            found["use"] = unknown
        return found

    def notes(self) -> Mapping[str, str]:
        """Return what people should know, and is no reason against being ready."""
        _, text = self._rules()
        return {"open": text} if text else {}

    def _rejections(self) -> str:
        """Return which nodes are closed because kubelets rejected pods."""
        engine = self._engine
        if engine is None:
            self._closed_nodes = ""
        elif not self._is_busy():
            self._closed_nodes = closed_nodes_text(engine.state.cluster.quarantines)
        return self._closed_nodes

    def _guarantees(self) -> str:
        """Return which guarantees of queues cannot be kept."""
        engine = self._engine
        if engine is None:
            self._unkept_guarantees = ""
        elif not self._is_busy():
            found = RealCapability(engine.state.cluster).unkept_guarantees()
            shown = [f"queue {name}: {texts[0]}" for name, texts in list(found.items())[:SHOWN]]
            more = f"; and {len(found) - SHOWN} more queues" if len(found) > SHOWN else ""
            self._unkept_guarantees = "; ".join(shown) + more
        return self._unkept_guarantees

    def _rules(self) -> tuple[str, str]:
        """Return which rules about namespaces name nothing, and what is open to all."""
        engine = self._engine
        if engine is None:
            self._use = ("", "")
        elif not self._is_busy() and engine.state.is_synced:
            cluster = engine.state.cluster
            self._use = unknown_text(cluster), open_text(cluster)
        return self._use
