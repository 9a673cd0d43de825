"""Credentials of a kubeconfig (rule K15.2), kept until a file changes or a plug-in's run out.

The client library, which reads the file, is imported when a kubeconfig is used and not before: it
brings every generated model along, and a daemon in a cluster has no use for them.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from daemon.clock import WallClock
from daemon.cluster.client.credentials import Identity, Reading
from events.errors import SettingsError

REFUSED_SECONDS_MIN: Final = 10.0
"""A server that refuses every credential does not make a plug-in run more often than this."""
EXPIRY_MARGIN_NS: Final = 30_000_000_000
"""Credentials are renewed so long before they expire."""

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]


class Kubeconfig:
    """One context of one or more merged files."""

    def __init__(
        self, files: tuple[Path, ...], context: str | None, environment: Mapping[str, str]
    ) -> None:
        self._files = files
        self._context = context
        self._environment = environment
        self._reading: Reading | None = None
        self._stamp: Stamp = ()
        self._read_at = 0.0

    async def load(self, known: Identity | None, *, is_refused: bool) -> Identity:
        """Read again only where that can tell something new."""
        from daemon.cluster.client.contexts import read_context

        now = asyncio.get_running_loop().time()
        if known is not None and not self._is_due(now, is_refused=is_refused):
            return known
        if not any(file.is_file() for file in self._files):
            names = ", ".join(str(file) for file in self._files)
            raise SettingsError(f"{names}: no such file, and this is no pod of a cluster")
        self._read_at = now
        reading = await read_context(self._files, self._context, self._environment)
        stamp = _stamp((*self._files, *reading.files))
        is_same = (
            known is not None
            and stamp == self._stamp
            and known.authorization == reading.identity.authorization
            and not reading.has_plugin_certificate
        )
        self._reading, self._stamp = reading, stamp
        return known if known is not None and is_same else reading.identity

    def _is_due(self, now: float, *, is_refused: bool) -> bool:
        reading = self._reading
        if reading is None or self._stamp != _stamp((*self._files, *reading.files)):
            return True
        expires = reading.expires_ns
        is_over = expires is not None and WallClock().now_ns() >= expires - EXPIRY_MARGIN_NS
        return (is_refused or is_over) and now - self._read_at >= REFUSED_SECONDS_MIN


def _stamp(files: tuple[Path, ...]) -> Stamp:
    """What changes when one of the files does."""
    stamp: list[tuple[str, int, int]] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            # One that is away for a moment is another one when it is back.
            stamp.append((str(file), 0, 0))
        else:
            stamp.append((str(file), status.st_mtime_ns, status.st_ino))
    return tuple(stamp)
