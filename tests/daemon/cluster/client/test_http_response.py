"""Responses, read from the bytes of a connection however these are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cluster.client.http_response import (
    ERROR_BYTES_MAX,
    HEAD_BYTES_MAX,
    Response,
    ResponseError,
    ResponseReader,
)

CREATED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
BYTES_MAX = 1000
WHOLE = {
    "a stated length": CREATED + b"Content-Length: 4\r\n\r\n{1:}",
    "a stated length in capitals": CREATED + b"CONTENT-LENGTH:  4 \r\n\r\n{1:}",
    "one chunk": CREATED + b"Transfer-Encoding: chunked\r\n\r\n4\r\n{1:}\r\n0\r\n\r\n",
    "chunks with extensions": CREATED
    + b"Transfer-Encoding: Chunked\r\n\r\n1;a=b\r\n{\r\n03\r\n1:}\r\n0\r\n\r\n",
    "a trailer": CREATED + b"Transfer-Encoding: chunked\r\n\r\n4\r\n{1:}\r\n0\r\nDigest: x\r\n\r\n",
    "an interim response": b"HTTP/1.1 100 Continue\r\n\r\n"
    + CREATED
    + b"Content-Length: 4\r\n\r\n{1:}",
}


def read(*parts: bytes, bytes_max: int = BYTES_MAX) -> Response | None:
    reader = ResponseReader(bytes_max)
    found = None
    for part in parts:
        assert found is None, "nothing may follow a response"
        found = reader.feed(part)
    return found


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_a_response_is_whole_with_its_last_byte(text: bytes) -> None:
    single = [bytes([one]) for one in text]
    assert read(*single[:-1]) is None
    found = read(*single)
    assert found is not None
    assert (found.status, found.body, found.is_last) == (201, b"{1:}", False)
    assert found.headers["content-type"] == "application/json"


@given(st.sampled_from(sorted(WHOLE.values())), st.lists(st.integers(0, 200)))
def test_a_response_is_the_same_wherever_its_bytes_are_cut(text: bytes, cuts: list[int]) -> None:
    ends = sorted({min(one, len(text)) for one in cuts} | {0, len(text)})
    parts = [text[begin:end] for begin, end in pairwise(ends)]
    assert read(*parts) == read(text)


def test_an_answer_without_a_length_ends_where_the_connection_does() -> None:
    reader = ResponseReader(BYTES_MAX)
    assert reader.feed(CREATED + b"\r\n{1") is None
    assert reader.feed(b":}") is None
    found = reader.end()
    assert (found.body, found.is_last) == (b"{1:}", True)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"]
)
def test_an_answer_that_has_no_body_is_whole_with_its_head(head: bytes) -> None:
    found = read(head)
    assert found is not None
    assert found.body == b""


@pytest.mark.parametrize(
    "text",
    [
        CREATED + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}",
        CREATED.replace(b"1.1", b"1.0") + b"Content-Length: 2\r\n\r\n{}",
        CREATED + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nHTTP",
    ],
    ids=["close", "HTTP/1.0", "more than its length", "more than its chunks"],
)
def test_no_request_follows_where_the_connection_is_not_at_the_end_of_an_answer(
    text: bytes,
) -> None:
    found = read(text)
    assert found is not None
    assert (found.body, found.is_last) == (b"{}", True)


def test_all_warnings_are_kept() -> None:
    found = read(CREATED + b"Warning: 299 - a, b\r\nwarning: 299 - c\r\nContent-Length: 0\r\n\r\n")
    assert found is not None
    assert found.warnings == ("299 - a, b", "299 - c")


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        CREATED + b"no colon\r\n\r\n",
        CREATED + b"Content-Length: -1\r\n\r\n",
        CREATED + b"Content-Length: 1e3\r\n\r\n",
        CREATED + "Content-Length: ٣\r\n\r\n".encode(),
        CREATED + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        CREATED + b"Transfer-Encoding: gzip\r\n\r\n",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n+4\r\n{1:}\r\n",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n4\r\n{1:}{1:}\r\n",
        CREATED + b"Content-Length: 1001\r\n\r\n",
        CREATED + b"\r\n" + b" " * (BYTES_MAX + 1),
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * (HEAD_BYTES_MAX + 1),
        CREATED
        + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"a: b\r\n" * (HEAD_BYTES_MAX // 6 + 1),
        CREATED + b"a: b\r\n" * (HEAD_BYTES_MAX // 6),
        b"H" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_what_is_no_response_or_too_long_for_one_is_an_error(text: bytes) -> None:
    with pytest.raises(ResponseError):
        read(text)


def test_the_body_of_a_long_error_is_not_waited_for() -> None:
    length = f"Content-Length: {ERROR_BYTES_MAX + 1}\r\n\r\n".encode()
    found = read(b"HTTP/1.1 500 Internal Server Error\r\n" + length, bytes_max=1)
    assert found is not None
    assert (found.status, found.body, found.is_last) == (500, b"", True)


@pytest.mark.parametrize("text", [b"", b"HTTP/1.1 2", CREATED + b"Content-Length: 2\r\n\r\n{"])
def test_a_connection_that_is_closed_before_the_end_has_given_no_answer(text: bytes) -> None:
    reader = ResponseReader(BYTES_MAX)
    assert reader.feed(text) is None
    with pytest.raises(ResponseError, match="closed"):
        reader.end()


def test_the_status_of_an_error_is_an_answer_whatever_becomes_of_its_body() -> None:
    reader = ResponseReader(BYTES_MAX)
    assert reader.feed(b"HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\n\r\n{") is None
    assert reader.end().status == 409
