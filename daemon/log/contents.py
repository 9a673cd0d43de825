"""Contents of objects to stored bytes and back.

Codec `zstd.1`: the CRC-32 (4 bytes, big endian) of what follows, then a zstd frame made with
`dictionary_1.json` as its dictionary: what Kubernetes objects have in common, which is most of them.
The CRC is there because some bits of a frame's header mean nothing: a changed one would go unseen.
A dictionary is part of the log format. It never changes; a better one is another codec.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from zlib import crc32

import zstandard
from msgspec import Struct

from events.errors import DamagedLogError
from events.record import StoredObject

ZSTD = "zstd.1"
REDACTED = "redacted"
"""The codec of a tombstone: the content was taken out on purpose, its digest was kept."""

LEVEL = 3
CONTENT_BYTES_MAX = 64 << 20
"""No frame unpacks to more; etcd takes no object above a few MB."""
CACHE_ENTRIES = 4096

ObjectRow = tuple[str, str, bytes]
"""Digest, codec, stored bytes: a row of `objects`."""

_CRC_BYTES = 4
_DICTIONARY = zstandard.ZstdCompressionDict(
    files("daemon.log").joinpath("dictionary_1.json").read_bytes(),
    dict_type=zstandard.DICT_TYPE_RAWCONTENT,
)


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
        self._compress = zstandard.ZstdCompressor(level=LEVEL, dict_data=_DICTIONARY).compress

    def rows(self, objects: Iterable[StoredObject]) -> list[ObjectRow]:
        """The rows of objects."""
        compress = self._compress
        rows: list[ObjectRow] = []
        for item in objects:
            frame = compress(item.content)
            rows.append((item.digest, ZSTD, crc32(frame).to_bytes(_CRC_BYTES, "big") + frame))
        return rows


class Unpacker:
    """Unpacks and checks objects; the last few thousand are kept, for objects recur."""

    def __init__(self) -> None:
        self._decompress = zstandard.ZstdDecompressor(dict_data=_DICTIONARY).decompress
        self._cache: OrderedDict[str, Content] = OrderedDict()

    def content(self, position: int, digest: str, codec: str | None, data: bytes | None) -> Content:
        """The content of the object that the record at `position` refers to."""
        if (known := self._cache.get(digest)) is not None:
            return known
        content = self._unpacked(f"position {position}: object {digest}", digest, codec, data)
        if len(self._cache) >= CACHE_ENTRIES:
            self._cache.popitem(last=False)
        self._cache[digest] = content
        return content

    def _unpacked(self, name: str, digest: str, codec: str | None, data: bytes | None) -> Content:
        if codec is None or data is None:
            raise DamagedLogError(f"{name} is missing")
        if codec == REDACTED and not data:
            return _TOMBSTONE
        if codec != ZSTD:
            raise DamagedLogError(f"{name} has the unknown codec {codec!r}")
        frame = data[_CRC_BYTES:]
        if crc32(frame) != int.from_bytes(data[:_CRC_BYTES], "big"):
            raise DamagedLogError(f"{name} has other stored bytes than were written")
        try:
            plain = self._decompress(frame, max_output_size=CONTENT_BYTES_MAX)
        except zstandard.ZstdError as error:
            raise DamagedLogError(f"{name} cannot be unpacked: {error}") from error
        if sha256(plain).hexdigest() != digest:
            raise DamagedLogError(f"{name} has another content")
        return Content(content=plain)
