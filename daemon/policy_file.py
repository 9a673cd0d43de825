"""The policy file, read again whenever it changes while the daemon runs, as Volcano does (volcano E.2).

What cannot be read, or not as a policy, is said once in a warning, and the policy in force stays. A file that
is part of a ConfigMap changes by another file under its name: so the file is looked at, not its events.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import structlog

from events.daemon import PolicyChanged
from events.errors import MusterError

LOOK_SECONDS: Final = 1.0
"""Between two looks."""

Stamp = tuple[int, int, int]
"""What of a file's state is another when its content is: time of its change, inode, size."""

logger: Final = structlog.get_logger("muster")


class PolicyFile:
    """A policy file. `read` makes a policy of it, or raises a MusterError that names what is wrong."""

    def __init__(self, path: Path, read: Callable[[Path], PolicyChanged]) -> None:
        self._path = path
        self._read = read
        self._stamp = self._last = _stamp(path)
        self.current = read(path)
        """What it said when it last could be read."""
        self._seen = _digest(self.current)
        self._error = ""

    @property
    def is_stale(self) -> bool:
        """Whether it has changed, and cannot be read."""
        return bool(self._error)

    def reasons(self) -> Mapping[str, str]:
        """Return why the policy in force is not the one of the file."""
        return {"policy": self._error} if self._error else {}

    def still(self) -> Mapping[str, float]:
        """Return nothing: the daemon does not wait for the file."""
        return {}

    def look(self) -> PolicyChanged | None:
        """What it says now, where that is something else than before."""
        stamp, before = _stamp(self._path), self._last
        self._last = stamp
        if stamp == self._stamp:
            self._error = ""
            return None
        if stamp != before:
            return None  # The file is still being written.
        try:
            found = self._read(self._path)
        except MusterError as error:
            if str(error) != self._error:
                self._error = str(error)
                logger.warning("the policy stays as it was", error=self._error)
            return None
        self._stamp, self._error = stamp, ""
        if _digest(found) == self._seen:
            return None
        self.current, self._seen = found, _digest(found)
        return found

    @asynccontextmanager
    async def watched(self, changed: Callable[[PolicyChanged], None]) -> AsyncIterator[None]:
        """Tell what it says whenever that changes, meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch(changed), name="policy")
            try:
                yield
            finally:
                watch.cancel()

    async def _watch(self, changed: Callable[[PolicyChanged], None]) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            found = await asyncio.to_thread(self.look)
            if found is not None:
                logger.info("the policy file has changed", file=str(self._path))
                changed(found)


def _stamp(path: Path) -> Stamp | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size


def _digest(policy: PolicyChanged) -> str:
    return sha256(bytes(policy.policy)).hexdigest()
