"""Log lines on stderr: JSON, or coloured text on a terminal.

Each line begins with its time, level and event, which is a few words. Each durable record is a line, with the pods and nodes of a
decision or outcome, and its code and message. Watch events are left out, since they are most of the records; lists, watches, cycles
that open and statuses that are written are lines at level `debug`, and one line is written when the cluster was listed. Every other
line has the `position` and `cycle` up to which records were durable when it was written. Libraries that use `logging` write in the
same form, from warnings on, each sort of line at most ten times a minute: peers can cause as many as they like.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from structlog.typing import EventDict, Processor, WrappedLogger

from daemon.clock import WallClock
from daemon.log_rate_limit import LogRateLimit
from engine.batch import Batch
from events.cluster import KindListed, ObjectObserved
from events.cycle import CycleOpened
from events.daemon import DaemonStarted
from events.outcome import StatusUpdated
from events.record import Record
from events.watch import ServerDiscovered, WatchOpened, WatchProgressed
from replay.printable import printable, printable_json

LEVELS: Final = ("debug", "info", "warning", "error")
"""Settings may name one of these."""

_QUIET: Final = (WatchProgressed.kind,)
"""Records that come by themselves and mean nothing to people."""

_DETAIL: Final = (
    CycleOpened.kind,
    DaemonStarted.kind,
    KindListed.kind,
    ServerDiscovered.kind,
    StatusUpdated.kind,
    WatchOpened.kind,
)
"""Records that are lines at level `debug`."""

SHOWN_PODS: Final = 5
"""Pods of a decision that are named in its line."""

BODY_BYTES_MAX: Final = 1 << 16
"""Bytes of a record beyond which its line has no fields of the body."""

_FIRST_FIELDS: Final = ("timestamp", "level", "event")

LIBRARY_LINES_MAX: Final = 10
"""Lines of one sort that libraries may write in a minute."""

SORT_CHARACTERS: Final = 40
"""Lines of one library and level are of one sort where they begin alike."""

_OF_MANY_LINES: Final = ("exception", "stack")
"""Fields that structlog makes of a traceback."""

_TIME: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)
"""Adds the present time to a line."""

_LEVEL_NAMES: Final = {logging.DEBUG: "debug", logging.INFO: "info"}
"""Levels of the lines of records, as structlog writes them."""

_encode: Final = msgspec.json.Encoder().encode

_logger: Final = structlog.get_logger("muster")


class _OnNode(Struct):
    pod: str
    node: str = ""


class _About(Struct):
    """The fields of decisions and outcomes that a line has."""

    placements: list[_OnNode] = []
    evictions: list[_OnNode] = []
    pod: str = ""
    node: str = ""
    queue: str = ""
    in_favour_of: str = ""
    code: str = ""
    message: str = ""

    def fields(self) -> dict[str, object]:
        """Return the fields of a line, without empty ones."""
        found: dict[str, object] = {}
        pods = self.placements or self.evictions
        if len(pods) == 1:
            found |= {"pod": pods[0].pod, "node": pods[0].node}
        elif pods:
            shown = [f"{one.pod} on {one.node}" for one in pods[:SHOWN_PODS]]
            more = [f"{len(pods) - SHOWN_PODS} more"] if len(pods) > SHOWN_PODS else []
            found |= {"pods": ", ".join(shown + more), "pod_count": len(pods)}
        for name in ("pod", "node", "queue", "in_favour_of", "code", "message"):
            if value := getattr(self, name):
                found[name] = value
        return found


_ABOUT: Final = msgspec.json.Decoder(_About)


def _about(record: Record) -> dict[str, object]:
    """Return those of these fields that a record has."""
    if len(record.body) > BODY_BYTES_MAX:
        return {}
    try:
        return _ABOUT.decode(record.body).fields()
    except msgspec.DecodeError:  # A field of this name means something else in this record.
        return {}


def _line(record: Record) -> dict[str, object]:
    """Return the fields of the line of a record, but for its time and level."""
    line: dict[str, object] = {
        "event": record.kind.partition(".")[0].replace("_", " "),
        "subject": record.subject.rstrip("/"),
        **_about(record),
        "position": record.position,
    }
    if record.cycle is not None:
        line["cycle"] = record.cycle
    if record.cause is not None:
        line["cause"] = record.cause
    return line


def _write_json(lines: list[tuple[int, dict[str, object]]]) -> None:
    """Write lines with their levels as JSON, all with the present time."""
    if not lines:
        return
    time = _TIME(None, "", {})
    written = [
        printable_json(_encode({**time, "level": _LEVEL_NAMES[level], **line}))
        for level, line in lines
    ]
    sys.stderr.write("\n".join([*written, ""]))
    sys.stderr.flush()


class Teller:
    """Logs durable records, and knows how far they go."""

    def __init__(self) -> None:
        self._position = 0
        self._cycle: int | None = None
        self._listed: Counter[str] | None = Counter()
        """Kinds of records before the first cycle."""
        self._json_level: int | None = None
        """The least level of lines, if they are JSON; None if structlog renders each."""

    def write_json(self, level: int) -> None:
        """Write lines of records as JSON from now on: those of a batch together, since a cycle can have thousands."""
        self._json_level = level

    def hear(self, batch: Batch, _seconds: float) -> None:
        """A batch is durable."""
        last = batch.records[-1]
        self._position, self._cycle = last.position, last.cycle or self._cycle
        lines: list[tuple[int, dict[str, object]]] = []
        for record in batch.records:
            if self._listed is not None:
                self._count(record)
            if "_observed." in record.kind or record.kind in _QUIET:
                continue
            level = logging.DEBUG if record.kind in _DETAIL else logging.INFO
            if self._json_level is None or level >= self._json_level:
                lines.append((level, _line(record)))
        if self._json_level is not None:
            _write_json(lines)
            return
        for level, line in lines:
            _logger.log(level, **line)

    def _count(self, record: Record) -> None:
        """Count records until the first cycle opens, and then log how much was listed."""
        assert self._listed is not None
        self._listed[record.kind] += 1
        if record.kind == CycleOpened.kind:
            kinds, objects = self._listed[KindListed.kind], self._listed[ObjectObserved.kind]
            self._listed = None
            if kinds:
                _logger.info(
                    "cluster listed", kinds=kinds, objects=objects, position=record.position
                )

    def place(self, _logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        """Say of a line where in the log it was said."""
        if "position" not in line and self._position:
            line["position"] = self._position
            line.setdefault("cycle", self._cycle)
        return line


def say_on_stderr(teller: Teller, level: str = "info") -> None:
    """Set up what is said from here on, by us and by libraries, for the whole process."""
    least = logging.getLevelNamesMapping()[level.upper()]
    renderer: list[Processor] = _console()
    if not sys.stderr.isatty():
        renderer = [structlog.processors.JSONRenderer(serializer=_json)]
        teller.write_json(least)
    _configure(teller.place, renderer, least)


def print_warnings_on_stderr() -> None:
    """Set up what a command other than the daemon prints of warnings, by us and by libraries."""
    _configure(None, _console(), logging.WARNING)


def _configure(place: Processor | None, renderer: list[Processor], level: int) -> None:
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        *([place] if place is not None else []),
        _TIME,
        structlog.processors.format_exc_info,
        _in_order,
    ]
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up each time: a test may have put another stream there.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    _hear_libraries(shared, renderer, max(level, logging.WARNING))


def _in_order(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Put time, level and event first."""
    first = {name: line[name] for name in _FIRST_FIELDS if name in line}
    return {**first, **line}


def _console() -> list[Processor]:
    """Coloured text, every field of which is escaped before it gets its colour."""
    colours = sys.stderr.isatty()
    plain = structlog.dev.plain_traceback
    return [_escape, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]


def _escape(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Escape every key and value; a traceback keeps its lines."""
    return {printable(key): _escaped(key, value) for key, value in line.items()}


def _escaped(key: str, value: object) -> object:
    if key in _OF_MANY_LINES:
        return "\n".join(map(printable, str(value).splitlines()))
    return value if isinstance(value, int | float) else printable(str(value))


def _hear_libraries(shared: list[Processor], renderer: list[Processor], level: int) -> None:
    handler = _Stderr()
    handler.addFilter(_Sparse())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    root = logging.getLogger()
    for one in [one for one in root.handlers if isinstance(one, _Stderr)]:
        root.removeHandler(one)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=True)


class _Sparse(logging.Filter):
    """Lets a few lines of each sort pass, and says of the next one how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._sparsely = LogRateLimit(WallClock().elapsed_ns, burst=LIBRARY_LINES_MAX)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is written."""
        sort = f"{record.name} {record.levelno} {str(record.msg)[:SORT_CHARACTERS]}"
        left_out = self._sparsely.allows(sort)
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return left_out is not None


class _Stderr(logging.Handler):
    """Writes to what is stderr at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        sys.stderr.write(self.format(record) + "\n")


def _json(line: EventDict, *, default: Callable[[object], object], **_: object) -> str:
    return printable_json(msgspec.json.encode(line, enc_hook=default))
