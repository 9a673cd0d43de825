"""Checksums of the rows of views.

The checksum of a view is the sum of the CRCs of its current rows, so it can be updated with each row and compared with that of a
rebuild. It finds torn and stale rows; the digests of the log are what protects the records.
"""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

import msgspec

from projections.views.rows import Row

MODULUS: Final = 1 << 64
"""Checksums of views are sums modulo this."""

_ENCODER = msgspec.msgpack.Encoder()


def row_checksum(row: Row) -> int:
    """Return the CRC of a row, as it enters the checksum of its view."""
    return crc32(_ENCODER.encode(row))


def checksum_of(rows: Iterable[Row]) -> int:
    """Return the checksum of a view with these rows, in any order."""
    return sum(map(row_checksum, rows)) % MODULUS
