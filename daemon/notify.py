"""Notifications to a supervisor, in the way of systemd's `sd_notify`: one datagram a message.

`READY=1` is said when the start is over: settings are right, the log is open and folded. It does not wait
for the API server, so that a cluster that is away fails no start; `STATUS=` says what is missing. Until
then the time that a start may take is extended as long as it moves. The watchdog is fed at half of its
time, and only while everything that has to move does: the loop, and each watch.

The protocol is a few lines of text on a Unix socket, so there is no library for it here: the one in
Python has no releases any more, and the binding to libsystemd needs a compiler.
"""

import asyncio
import socket
from typing import Final

import structlog

from daemon.health import Health

TOLD_EVERY_SECONDS: Final = 5.0
"""Seconds between two status notifications, unless the watchdog wants it more often."""

STARTING_SECONDS: Final = 0.5
"""How often it is looked whether the start is over."""

_MICROSECONDS: Final = 1_000_000

_logger: Final = structlog.get_logger("muster")


class Notifier:
    """The way to a supervisor. `address` is a path, or with `@` in front a name that is no file; where
    it is empty, nothing is sent."""

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._is_silent = not address
        self._has_failed = False
        if address and address[0] not in "/@":
            _logger.warning("NOTIFY_SOCKET is neither a path nor a name", address=address)
            self._is_silent = True

    def send(self, *messages: str) -> None:
        """Send assignments such as `READY=1`. A supervisor that does not listen is no trouble of ours."""
        if self._is_silent:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.setblocking(False)
                channel.sendto("\n".join(messages).encode(), self._address)
        except BlockingIOError:
            return  # It has plenty to read; the next one will do.
        except OSError as error:
            # It may be there again later, so sending goes on; the failure is logged once.
            if not self._has_failed:
                self._has_failed = True
                _logger.warning("the supervisor cannot be told", error=str(error))


async def keep_notified(notifier: Notifier, health: Health, watchdog_seconds: float | None) -> None:
    """Tell the supervisor how things are, until cancelled: then, that the daemon stops."""
    pause = TOLD_EVERY_SECONDS
    if watchdog_seconds is not None:
        pause = min(pause, watchdog_seconds / 2)
    is_ready, sent = False, ""
    try:
        while True:
            messages: list[str] = []
            if health.has_begun and not is_ready:
                is_ready = True
                messages.append("READY=1")
            elif not is_ready and health.is_live:
                # Time enough for two more messages.
                more = max(30.0, 3 * pause)
                messages.append(f"EXTEND_TIMEOUT_USEC={round(more * _MICROSECONDS)}")
            if (status := status_of(health)) != sent:
                sent = status
                messages.append(f"STATUS={status}")
            if watchdog_seconds is not None and health.is_live:
                messages.append("WATCHDOG=1")
            if messages:
                notifier.send(*messages)
            await asyncio.sleep(pause if is_ready else min(pause, STARTING_SECONDS))
    finally:
        notifier.send("STOPPING=1", "STATUS=stopping")


def status_of(health: Health) -> str:
    """How things are, in one line."""
    parts = [health.role, "ready" if health.is_ready else "not ready"]
    line = ", ".join(parts)
    if still := health.still:
        line += f"; stands still: {', '.join(still)}"
    if reasons := health.reasons:
        line += "; " + "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
    return " ".join(line.split())
