"""Which snapshots of a log are kept."""

from hypothesis import given
from hypothesis import strategies as st

from daemon.log.ladder import BYTES_FREE, NEWEST_KEPT, SHARE, StoredSnapshot, bytes_max, surplus

EVERY = 10_000


def written(
    count: int, *, size_bytes: int = 1, count_max: int = 40, bytes_max: int = 1 << 60
) -> list[int]:
    """The positions that are left when so many snapshots are written one after the other."""
    kept: list[StoredSnapshot] = []
    for number in range(1, count + 1):
        kept.append(StoredSnapshot(number * EVERY, size_bytes))
        gone = surplus(kept, number * EVERY, bytes_max, count_max=count_max)
        kept = [one for one in kept if one.position not in gone]
    return [one.position for one in kept]


def test_gaps_grow_with_the_distance_from_the_end() -> None:
    count = 2_000
    kept, end = written(count), count * EVERY
    assert len(kept) == 40
    assert kept[-NEWEST_KEPT:] == [end - 2 * EVERY, end - EVERY, end]
    for begin, after in zip([0, *kept], kept, strict=False):
        assert after - begin <= max(EVERY, (end - begin) // 2), (begin, after)
    # Each doubling of the distance has some.
    distance = 4 * EVERY
    while distance < end // 2:
        near = [one for one in kept if distance < end - one <= 2 * distance]
        assert 2 <= len(near) <= 12
        distance *= 2


def test_few_snapshots_are_all_kept() -> None:
    assert written(40) == [number * EVERY for number in range(1, 41)]


def test_bytes_are_limited_but_the_newest_snapshots_are_kept() -> None:
    assert len(written(500, size_bytes=10, bytes_max=200)) == 20
    assert written(500, size_bytes=1_000, bytes_max=200) == [498 * EVERY, 499 * EVERY, 500 * EVERY]
    assert bytes_max(0) == BYTES_FREE
    assert bytes_max(SHARE << 30) == 1 << 30


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**6)), unique_by=lambda one: one[0]),
    st.integers(0, 10**9),
    st.integers(0, 10**7),
    st.integers(0, 50),
)
def test_what_is_kept_is_within_the_limits(
    stored: list[tuple[int, int]], more: int, size_bytes_max: int, count_max: int
) -> None:
    snapshots = [StoredSnapshot(position, size_bytes) for position, size_bytes in sorted(stored)]
    end = (snapshots[-1].position if snapshots else 0) + more
    gone = surplus(snapshots, end, size_bytes_max, count_max=count_max)
    kept = [one for one in snapshots if one.position not in gone]
    assert len(kept) + len(gone) == len(snapshots)
    if len(kept) > NEWEST_KEPT:
        assert len(kept) <= count_max
        assert sum(one.size_bytes for one in kept) <= size_bytes_max
    assert kept[-NEWEST_KEPT:] == snapshots[-NEWEST_KEPT:]
