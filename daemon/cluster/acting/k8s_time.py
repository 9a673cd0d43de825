"""Nanoseconds as timestamps of Kubernetes objects, in UTC."""

from datetime import UTC, datetime
from typing import Final

_SECOND_NS: Final = 1_000_000_000


def seconds_of(now_ns: int) -> str:
    """In the format of `metav1.Time`: `2026-11-21T08:15:00Z`."""
    return f"{datetime.fromtimestamp(now_ns // _SECOND_NS, UTC):%Y-%m-%dT%H:%M:%S}Z"


def microseconds_of(now_ns: int) -> str:
    """In the format of `metav1.MicroTime`, with exactly six digits (K11.1): `2026-11-21T08:15:00.000042Z`."""
    micro = now_ns % _SECOND_NS // 1_000
    return f"{datetime.fromtimestamp(now_ns // _SECOND_NS, UTC):%Y-%m-%dT%H:%M:%S}.{micro:06d}Z"
