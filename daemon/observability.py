"""Observability of a daemon: probes, metrics, logs on stderr, and the supervisor.

It is made first, so that a slow start can be observed; the loop and the Kubernetes adapter report to it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from daemon.address import parse_address
from daemon.health import Health
from daemon.internal_errors import InternalErrorLog
from daemon.log.contract import Log
from daemon.metrics.export import Metrics
from daemon.notify import Notifier, keep_notified
from daemon.notifying_log import Listener, NotifyingLog
from daemon.serving.listening import listening
from daemon.serving.pages import application, probing
from daemon.settings import Settings, Supervision, read_token
from daemon.stderr import Teller

_logger = structlog.get_logger("muster")


class Observability:
    """Health and metrics of this process, and their listeners."""

    def __init__(
        self, elapsed_ns: Callable[[], int], teller: Teller, version: str, decider: int
    ) -> None:
        self._elapsed_ns = elapsed_ns
        self._teller = teller
        self._log: NotifyingLog | None = None
        self.health = Health(elapsed_ns)
        self.metrics = Metrics(self.health, version, decider)
        self.on_error = InternalErrorLog(self.metrics.counted.internal_error)
        """Records exceptions in muster's own code that were held to one object."""

    def heard(
        self,
        log: Log,
        *others: Listener,
        until_idle: Callable[[], Awaitable[None]] | None = None,
    ) -> NotifyingLog:
        """Wrap the log: each durable batch is counted, logged on stderr, and passed to listeners.

        `until_idle` returns when State is not being changed in another thread.
        """
        listeners = (self.metrics.counted.observe_batch, self._teller.hear, *others)
        self._log = NotifyingLog(log, self._elapsed_ns, listeners, self.on_error, until_idle)
        return self._log

    def reasons(self) -> Mapping[str, str]:
        """Why the daemon is not ready, as far as the log is concerned."""
        return {} if self._log is None else self._log.reasons()

    def still(self) -> Mapping[str, float]:
        """An unavailable log is no reason to restart the daemon."""
        return {}

    @asynccontextmanager
    async def open(
        self, settings: Settings, folder: Path, supervision: Supervision
    ) -> AsyncIterator[None]:
        """Answer probes and notify the supervisor, until the block ends. `folder` is that of the settings."""
        token = None
        if settings.token_file is not None:
            token = read_token(folder / settings.token_file)
        listen = partial(
            listening,
            allowed_hosts=settings.allowed_hosts,
            observe=self.metrics.counted.http_refused,
        )
        async with AsyncExitStack() as stack:
            if settings.listen:
                address = parse_address(settings.listen)
                app = application(
                    self.health, self.metrics, token=token, is_loopback=address.is_loopback
                )
                given = await stack.enter_async_context(listen(address, app))
                _logger.info("listening", address=str(given))
            if settings.probes_listen:
                address = parse_address(settings.probes_listen)
                app = probing(self.health, self.metrics)
                given = await stack.enter_async_context(listen(address, app))
                _logger.info("listening for probes", address=str(given))
            stack.enter_context(self.health.asking(self))
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            notifier = Notifier(supervision.address)
            told = tasks.create_task(
                keep_notified(notifier, self.health, supervision.watchdog_seconds),
                name="supervisor",
            )
            try:
                yield
            finally:
                told.cancel()
