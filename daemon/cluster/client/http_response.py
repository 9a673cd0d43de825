"""Read the response to one HTTP/1.1 request out of the bytes of its connection (RFC 9112).

A body ends at its `Content-Length`, at its last chunk, or, where the server states neither, where it closes the connection.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct

HEAD_BYTES_MAX: Final = 64 * 2**10
"""Bytes of the status line and the headers; also of what follows the last chunk."""
ERROR_BYTES_MAX: Final = 64 * 2**10
"""Bytes that are read of the body of an error."""

# Members of an enumeration are looked up by Python code at each access.
_OK: Final = int(HTTPStatus.OK)
_REDIRECTION: Final = int(HTTPStatus.MULTIPLE_CHOICES)
_WITHOUT_BODY: Final = (int(HTTPStatus.NO_CONTENT), int(HTTPStatus.NOT_MODIFIED))
_HEAD_END: Final = b"\r\n\r\n"
_UNTIL_CLOSED: Final = -1
_CHUNKED: Final = -2
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class ResponseError(Exception):
    """What came is no whole response."""


class Response(Struct, frozen=True):
    """A response, read whole. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    warnings: tuple[str, ...]
    """Values of all `Warning` headers."""
    body: bytes
    is_last: bool
    """Whether no other request may follow on the connection."""


class ResponseReader:
    """Takes in the bytes that follow a request, until its response is whole."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` is for the body of a success. Of an error no more than `ERROR_BYTES_MAX` are read."""
        self._bytes_max = bytes_max
        self._data = bytearray()
        """What has come and is not part of `_chunks`."""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._is_last = False
        self._length: int | None = None
        """Bytes of the body; `_UNTIL_CLOSED`, `_CHUNKED`, or None before the head is whole."""
        self._chunks: list[bytes] = []
        self._chunks_bytes = 0

    def feed(self, data: bytes) -> Response | None:
        """Return the response, if it is whole now. Raise ResponseError if it never will be."""
        self._data += data
        while self._length is None:
            end = self._data.find(_HEAD_END)
            if max(end, len(self._data) if end < 0 else 0) > HEAD_BYTES_MAX:
                raise ResponseError("the headers of the answer are too long")
            if end < 0:
                return None
            self._read_head(bytes(self._data[:end]))
            del self._data[: end + len(_HEAD_END)]
        if self._length >= 0:
            return self._whole(self._length)
        if self._length == _CHUNKED:
            return self._read_chunks()
        return self._bounded(len(self._data))

    def end(self) -> Response:
        """Return the response after the connection was closed. The status of an error is an answer, whatever became of its body."""
        if self._length is None:
            raise ResponseError("the connection was closed before an answer")
        if self._length == _UNTIL_CLOSED:
            return self._made(bytes(self._data), is_last=True)
        if self._status < _REDIRECTION:
            raise ResponseError("the connection was closed within the answer")
        return self._made(b"", is_last=True)

    def _read_head(self, head: bytes) -> None:
        """Read the status line and the headers; nothing remains of an interim response (1xx)."""
        first, *lines = head.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise ResponseError("the answer is not HTTP")
        status = int(rest[:3])
        if status < _OK:
            return
        headers: dict[str, str] = {}
        warnings: list[str] = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise ResponseError("a header of the answer cannot be read")
            key, text = name.decode("latin-1").lower(), value.strip().decode("latin-1")
            if key == "warning":
                warnings.append(text)
            if key == "content-length" and headers.get(key, text) != text:
                raise ResponseError("the answer states two lengths")
            headers[key] = text
        self._status, self._headers, self._warnings = status, headers, tuple(warnings)
        self._length = _length(status, headers)
        connection = headers.get("connection", "").lower()
        self._is_last = (
            self._length == _UNTIL_CLOSED or "close" in connection or version == b"HTTP/1.0"
        )

    def _whole(self, length: int) -> Response | None:
        if (cut := self._bounded(length)) is not None:
            return cut
        if len(self._data) < length:
            return None
        has_more = len(self._data) > length
        return self._made(bytes(self._data[:length]), is_last=self._is_last or has_more)

    def _read_chunks(self) -> Response | None:
        at, data = 0, self._data
        while (end := data.find(b"\r\n", at)) >= 0:
            size = _chunk_size(bytes(data[at:end]))
            if size == 0:
                # The trailer: headers, each on a line, and an empty line; none as a rule.
                last = data.find(_HEAD_END, end)
                if last < 0 and len(data) - end > HEAD_BYTES_MAX:
                    raise ResponseError("the trailer of the answer is too long")
                if last < 0:
                    break
                has_more = len(data) > last + len(_HEAD_END)
                return self._made(b"".join(self._chunks), is_last=self._is_last or has_more)
            if (cut := self._bounded(self._chunks_bytes + size)) is not None:
                return cut
            begin, at_end = end + 2, end + 2 + size
            if len(data) < at_end + 2:
                break
            if data[at_end : at_end + 2] != b"\r\n":
                raise ResponseError("a chunk of the answer has no end")
            self._chunks.append(bytes(data[begin:at_end]))
            self._chunks_bytes += size
            at = at_end + 2
        del data[:at]
        if end < 0 and len(data) > HEAD_BYTES_MAX:
            raise ResponseError("a chunk of the answer cannot be read")
        return None

    def _bounded(self, length: int) -> Response | None:
        """Check the length of a body. Return the response of an error whose body is too long, without it."""
        if self._status >= _REDIRECTION:
            return self._made(b"", is_last=True) if length > ERROR_BYTES_MAX else None
        if length > self._bytes_max:
            raise ResponseError(f"the answer is longer than {self._bytes_max} bytes")
        return None

    def _made(self, body: bytes, *, is_last: bool) -> Response:
        return Response(self._status, self._headers, self._warnings, body, is_last)


def is_success(status: int) -> bool:
    """Whether a status is one of 2xx."""
    return _OK <= status < _REDIRECTION


def _length(status: int, headers: Mapping[str, str]) -> int:
    """Return the length of a body (RFC 9112, 6.3)."""
    if status in _WITHOUT_BODY:
        return 0
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise ResponseError("the answer has an unknown transfer encoding")
        return _CHUNKED
    stated = headers.get("content-length")
    if stated is None:
        return _UNTIL_CLOSED
    if not (stated.isascii() and stated.isdigit()) or len(stated) > 18:
        raise ResponseError("the length of the answer cannot be read")
    return int(stated)


def _chunk_size(line: bytes) -> int:
    """Return the size that the first line of a chunk states; it may have extensions behind a semicolon."""
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
        raise ResponseError("a chunk of the answer cannot be read")
    return int(digits, 16)
