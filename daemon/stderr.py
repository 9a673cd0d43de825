"""What the daemon says aloud: JSON lines on stderr, coloured text on a terminal.

Each durable record is a line (the output is the log, told aloud), except for what the API server merely
shows: that is the bulk, and stands in the log. Every other line bears the `position` and `cycle` up to
which records were durable when it was said. What libraries say through `logging` comes out in the same
form, from warnings on.
"""

import logging
import sys
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from events.watching import WatchProgressed
from projections.batch import Batch

LEVELS: Final = ("debug", "info", "warning", "error")
"""Settings may name one of these."""

_QUIET: Final = (WatchProgressed.kind,)
"""Records that come by themselves and mean nothing to people."""

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
    number = logging.getLevelNamesMapping()[level.upper()]
    is_watched = sys.stderr.isatty()
    renderer: Processor = (
        structlog.dev.ConsoleRenderer()
        if is_watched
        else structlog.processors.JSONRenderer(serializer=_json)
    )
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        teller.place,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not is_watched:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    _hear_libraries(shared, renderer, max(number, logging.WARNING))


def _hear_libraries(shared: list[Processor], renderer: Processor, level: int) -> None:
    handler = _Stderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    root = logging.getLogger()
    for one in [one for one in root.handlers if isinstance(one, _Stderr)]:
        root.removeHandler(one)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=True)


class _Stderr(logging.Handler):
    """Writes to what is stderr at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        sys.stderr.write(self.format(record) + "\n")


def _json(line: EventDict, *, default: Callable[[object], object], **_: object) -> str:
    return msgspec.json.encode(line, enc_hook=default).decode()
