"""Lines out of chunks (K3.2)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cluster.watching.line_splitter import LINE_BYTES_MAX, LineSplitter, LineTooLongError

TEXT = st.binary(max_size=60).map(lambda some: some.replace(b"\x00", b"\n"))


@given(text=TEXT, cuts=st.lists(st.integers(0, 60)))
def test_any_chunking_gives_the_same_lines(text: bytes, cuts: list[int]) -> None:
    """K3.2: a chunk may hold part of a line or many; without its newline a line is no event."""
    lines = LineSplitter()
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[begin:end] for begin, end in pairwise(at)]
    got = [line for chunk in chunks for line in lines.feed(chunk)]
    *whole, rest = text.split(b"\n")
    assert got == [line for line in whole if line]
    assert lines.is_between == (not rest)


def test_an_object_of_five_mebibytes_passes_in_small_chunks() -> None:
    lines, line = LineSplitter(), b"x" * (5 * 1024 * 1024)
    chunks = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]
    got = [one for chunk in (*chunks, b"\n") for one in lines.feed(chunk)]
    assert got == [line]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_beyond_the_stated_limit_is_an_error(end: bytes) -> None:
    """K3.2: our own splitter has a stated limit of 16 MiB."""
    assert LINE_BYTES_MAX == 16 * 2**20
    assert LineSplitter(limit=8).feed(b"12345678\n") == [b"12345678"]
    lines = LineSplitter(limit=8)
    lines.feed(b"12345")
    with pytest.raises(LineTooLongError, match="longer than 8 bytes"):
        lines.feed(b"6789" + end)
