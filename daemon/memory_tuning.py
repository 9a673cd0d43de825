"""Memory of a process whose State is large and long-lived: the garbage collector, and what the allocator keeps.

What is freed goes back to the allocator, not to the operating system. Python's own arenas go back when all of an
arena is free. Of larger blocks glibc gives back what lies at the end of its heap, or was mapped on its own; how large a
block must be for that rises with each one that is freed, up to 32 MiB, unless it is set. So a burst of large objects
would stay in the process for good.
"""

import atexit
import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 100_000
"""Objects made before the collector looks at the young ones: a batch makes tens of thousands."""

MAPPED_BYTES: Final = 256 * 1024
"""A block of so many bytes is mapped on its own, and goes back when it is freed."""

ARENAS: Final = 1
"""Heaps of glibc that threads share: what one thread frees, such as the raw objects of a list, another can use."""

_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def collect_rarely() -> None:
    """Next to nothing that muster makes is part of a circle: there is little to be found, and nothing at exit, where
    Python would look through everything that was ever imported."""
    gc.set_threshold(YOUNG, 20, 100)
    atexit.register(gc.freeze)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do not look for garbage while State is loaded or modules are imported: all that is made stays. It then counts as
    old at once, so that the next collection of young objects does not look at all of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def return_large_blocks() -> None:
    """Let glibc map large blocks on their own. Elsewhere nothing is changed. Call it before threads are started."""
    if (libc := _glibc()) is not None:
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        libc.mallopt(_M_ARENA_MAX, ARENAS)


def return_freed_memory() -> None:
    """Let glibc give back what was freed in the middle of its heaps. It looks at all of them: call it after a burst."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - musl has none
    except (OSError, AttributeError):
        return None
    return libc
