"""Contents of objects to stored bytes and back: zstd, one frame an object, checked by its digest."""

from hashlib import sha256

import zstandard
from msgspec import Struct

from events.errors import DamagedLogError
from events.record import StoredObject

ZSTD = "zstd"
REDACTED = "redacted"
"""The codec of a tombstone: the content was taken out on purpose, its digest was kept."""

LEVEL = 3
CONTENT_BYTES_MAX = 64 << 20
"""No frame unpacks to more; etcd takes no object above a few MB."""
CACHE_ENTRIES = 4096

ObjectRow = tuple[str, str, bytes]
"""Digest, codec, stored bytes: a row of `objects`."""


class Content(Struct, frozen=True):
    """An unpacked object; null where it was redacted."""

    content: bytes | None


_TOMBSTONE = Content(content=None)


def tombstone(digest: str) -> ObjectRow:
    """The row of an object whose content is not to be seen."""
    return digest, REDACTED, b""


class Packer:
    """Packs contents. Not for two threads at once."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=LEVEL).compress

    def rows(self, objects: list[StoredObject]) -> list[ObjectRow]:
        """The rows of objects."""
        compress = self._compress
        return [(item.digest, ZSTD, compress(item.content)) for item in objects]


class Unpacker:
    """Unpacks and checks objects; the last few thousand are kept, for objects recur."""

    def __init__(self) -> None:
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._cache: dict[str, Content] = {}

    def content(self, position: int, digest: str, codec: str | None, data: bytes | None) -> Content:
        """The content of the object that the record at `position` refers to."""
        if (known := self._cache.get(digest)) is not None:
            return known
        content = self._unpack(position, digest, codec, data)
        if len(self._cache) >= CACHE_ENTRIES:
            del self._cache[next(iter(self._cache))]
        self._cache[digest] = content
        return content

    def _unpack(self, position: int, digest: str, codec: str | None, data: bytes | None) -> Content:
        if codec is None or data is None:
            raise DamagedLogError(f"position {position}: object {digest} is missing")
        if codec == REDACTED and not data:
            return _TOMBSTONE
        if codec != ZSTD:
            raise DamagedLogError(
                f"position {position}: object {digest} has unknown codec {codec!r}"
            )
        try:
            plain = self._decompress(data, max_output_size=CONTENT_BYTES_MAX)
        except zstandard.ZstdError as error:
            raise DamagedLogError(
                f"position {position}: object {digest} cannot be unpacked: {error}"
            ) from error
        if sha256(plain).hexdigest() != digest:
            raise DamagedLogError(f"position {position}: object {digest} has another content")
        return Content(content=plain)
