"""What the daemon says aloud: JSON lines on stderr, coloured text on a terminal.

Each durable record is a line (the output is the log, told aloud), except for what the API server merely
shows: that is the bulk, and stands in the log. Every other line has the `position` and `cycle` up to
which records were durable when it was said. What libraries say through `logging` comes out in the same
form, from warnings on, each sort of line at most ten times a minute: what a library says of its peers is
as much as the peers like.
"""

import logging
import sys
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from daemon.clock import WallClock
from daemon.log_rate_limit import LogRateLimit
from events.watch import WatchProgressed
from projections.batch import Batch
from replay.printable import printable, printable_json

LEVELS: Final = ("debug", "info", "warning", "error")
"""Settings may name one of these."""

_QUIET: Final = (WatchProgressed.kind,)
"""Records that come by themselves and mean nothing to people."""

LIBRARY_LINES_MAX: Final = 10
"""Lines of one sort that libraries may write in a minute."""

SORT_CHARACTERS: Final = 40
"""Lines of one library and level are of one sort where they begin alike."""

_OF_MANY_LINES: Final = ("exception", "stack")
"""Fields that structlog makes of a traceback."""

_logger: Final = structlog.get_logger("muster")


class Teller:
    """Tells durable records, and knows how far they go."""

    def __init__(self) -> None:
        self._position = 0
        self._cycle: int | None = None

    def hear(self, batch: Batch, _seconds: float) -> None:
        """A batch is durable."""
        last = batch.records[-1]
        self._position, self._cycle = last.position, last.cycle or self._cycle
        for record in batch.records:
            if "_observed." not in record.kind and record.kind not in _QUIET:
                _logger.info(
                    record.kind.partition(".")[0],
                    position=record.position,
                    cycle=record.cycle,
                    cause=record.cause,
                    subject=record.subject,
                )

    def place(self, _logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        """Say of a line where in the log it was said."""
        if "position" not in line and self._position:
            line["position"] = self._position
            line.setdefault("cycle", self._cycle)
        return line


def say_on_stderr(teller: Teller, level: str = "info") -> None:
    """Set up what is said from here on, by us and by libraries, for the whole process."""
    renderer: list[Processor] = (
        _console() if sys.stderr.isatty() else [structlog.processors.JSONRenderer(serializer=_json)]
    )
    _configure(teller.place, renderer, logging.getLevelNamesMapping()[level.upper()])


def print_warnings_on_stderr() -> None:
    """Set up what a command other than the daemon prints of warnings, by us and by libraries."""
    _configure(None, _console(), logging.WARNING)


def _configure(place: Processor | None, renderer: list[Processor], level: int) -> None:
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        *([place] if place is not None else []),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up each time: a test may have put another stream there.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    _hear_libraries(shared, renderer, max(level, logging.WARNING))


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
