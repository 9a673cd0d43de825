"""The chain: whatever is changed, moved or left out is found."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from events.chain import Draft, check_link, digest_of, seal
from events.errors import DamagedLogError
from events.record import GENESIS, Head, Record


def records(count: int) -> list[Record]:
    """A chain of records, one a batch."""
    made: list[Record] = []
    previous = GENESIS.digest
    for position in range(1, count + 1):
        draft = Draft(
            position=position,
            batch=position,
            epoch=1,
            recorded_at_ns=position * 10,
            cycle=None,
            cause=position - 1 or None,
            kind="pod_bound.v1",
            subject=f"Pod/default/p{position}",
            body=b"{}",
            object=None,
        )
        made.append(seal(previous, draft))
        previous = made[-1].digest
    return made


def walk(chain: list[Record]) -> Head:
    """The head of a chain that is whole."""
    head = GENESIS
    for record in chain:
        head = check_link(head, record)
    return head


def test_a_whole_chain_ends_in_its_last_record() -> None:
    chain = records(5)
    assert walk(chain) == Head(position=5, digest=chain[-1].digest, epoch=1)


CHANGES: dict[str, Callable[[Record], Record]] = {
    "batch": lambda one: structs.replace(one, batch=1),
    "epoch": lambda one: structs.replace(one, epoch=2),
    "recorded_at_ns": lambda one: structs.replace(one, recorded_at_ns=31),
    "cycle": lambda one: structs.replace(one, cycle=0),
    "cause": lambda one: structs.replace(one, cause=None),
    "kind": lambda one: structs.replace(one, kind="pod_bound.v2"),
    "subject": lambda one: structs.replace(one, subject="Pod/default/p4"),
    "body": lambda one: structs.replace(one, body=b"{ }"),
    "object": lambda one: structs.replace(one, object=""),
    "digest": lambda one: structs.replace(one, digest="0" * 64),
}


@pytest.mark.parametrize("column", CHANGES)
def test_a_changed_column_breaks_the_chain_there(column: str) -> None:
    chain = records(5)
    chain[2] = CHANGES[column](chain[2])
    with pytest.raises(DamagedLogError, match="position 3"):
        walk(chain)


def test_a_missing_and_a_moved_record_are_found() -> None:
    chain = records(5)
    with pytest.raises(DamagedLogError, match="position 3: missing"):
        walk([*chain[:2], *chain[3:]])
    with pytest.raises(DamagedLogError, match="position 3: missing"):
        walk([*chain[:2], chain[3], chain[2], chain[4]])


def test_an_epoch_does_not_run_backwards() -> None:
    chain = records(1)
    later = Head(position=0, digest=GENESIS.digest, epoch=2)
    with pytest.raises(DamagedLogError, match="epoch 1 comes after epoch 2"):
        check_link(later, chain[0])


@given(st.text(max_size=6), st.binary(max_size=6), st.integers(0, 3))
def test_moving_bytes_between_columns_changes_the_digest(
    subject: str, body: bytes, cut: int
) -> None:
    whole = Draft(1, 1, 1, 0, None, None, "k", subject, body, None)
    text = subject + body.decode("latin1")
    other = structs.replace(whole, subject=text[:cut], body=text[cut:].encode("latin1", "ignore"))
    if (other.subject, other.body) != (whole.subject, whole.body):
        assert digest_of("", whole) != digest_of("", other)
