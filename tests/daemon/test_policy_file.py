"""The policy file is read again when it changes, and what cannot be read changes nothing (volcano E.2)."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from daemon import policy_file
from daemon.cli.inputs import read_policy
from daemon.policy_file import PolicyFile
from events.daemon import PolicyChanged
from events.errors import PolicyError

ALL = 'actions: "enqueue, allocate, backfill"\n'
LESS = 'actions: "enqueue, allocate"\n'


def read(path: Path) -> PolicyChanged:
    return PolicyChanged(source=path.name, policy=msgspec.Raw(read_policy(path, tells=False)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a policy."""
    path = tmp_path / "policy.yaml"
    path.write_text(ALL)
    return path


@pytest.fixture
def warnings() -> Iterator[list[structlog.typing.EventDict]]:
    """What is said meanwhile."""
    with capture_logs() as said:
        yield said


def looks(file: PolicyFile, times: int = 3) -> list[str]:
    """The policies that so many looks find."""
    found = [file.look() for _ in range(times)]
    return [bytes(one.policy).decode() for one in found if one is not None]


def rewrite(path: Path, text: str) -> None:
    """As a ConfigMap is changed: another file comes to be under the name."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_a_change_is_found_once_it_rests_and_once_only(path: Path) -> None:
    file = PolicyFile(path, read)
    assert looks(file) == []
    rewrite(path, LESS)
    assert file.look() is None, "somebody may still be writing"
    assert looks(file) == ['{"actions":"enqueue, allocate"}']
    assert bytes(file.current.policy) == b'{"actions":"enqueue, allocate"}'


def test_a_folder_that_is_swapped_under_the_file_is_a_change(tmp_path: Path) -> None:
    """As the kubelet does it with a ConfigMap: only a link above the file is another."""
    for name, text in (("one", ALL), ("two", LESS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    data, swapped = tmp_path / "..data", tmp_path / "..data_tmp"
    data.symlink_to("one")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    file = PolicyFile(tmp_path / "policy.yaml", read)
    swapped.symlink_to("two")
    swapped.replace(data)
    assert looks(file) == ['{"actions":"enqueue, allocate"}']


def test_the_same_in_other_words_is_no_change(path: Path) -> None:
    file = PolicyFile(path, read)
    rewrite(path, f"# as before\n{ALL}")
    assert looks(file) == []


@pytest.mark.parametrize("text", ["actions: [", "actions: fly\n", "tiers: 7\n", "", None])
def test_what_cannot_be_read_is_said_once_and_changes_nothing(
    path: Path, warnings: list[structlog.typing.EventDict], text: str | None
) -> None:
    file = PolicyFile(path, read)
    if text is None:
        path.unlink()
    else:
        rewrite(path, text)
    assert looks(file, times=5) == []
    assert [one["event"] for one in warnings] == ["the policy stays as it was"]
    assert str(path) in warnings[0]["error"]
    assert file.is_stale
    rewrite(path, LESS)
    assert looks(file) == ['{"actions":"enqueue, allocate"}']
    assert not file.is_stale


def test_at_the_start_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.write_text("actions: fly\n")
    with pytest.raises(PolicyError, match="'fly' is not an action"):
        PolicyFile(path, read)


async def test_a_changed_policy_file_is_reported_to_its_watcher(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_file, "LOOK_SECONDS", 0.01)
    file = PolicyFile(path, read)
    told: asyncio.Queue[PolicyChanged] = asyncio.Queue()
    async with file.watched(told.put_nowait):
        rewrite(path, LESS)
        os.utime(path)
        async with asyncio.timeout(10.0):
            assert bytes((await told.get()).policy) == b'{"actions":"enqueue, allocate"}'
