"""Snapshots are a cache of the code that wrote them."""

from pathlib import Path

import pytest

from daemon.fold import fold
from daemon.log import code_key as code_keys
from daemon.log.code_key import code_key
from daemon.log.memory import MemoryLog
from projections.state import State
from tests.daemon.log.contract import filled


def test_a_changed_line_of_a_core_package_is_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "core_of_a_test"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "rule.py").write_text("ANSWER = 1\n")
    (package / "notes.txt").write_text("not code")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code_keys, "PACKAGES", (package.name,))

    def key() -> str:
        code_key.cache_clear()
        return code_key()

    try:
        first = key()
        assert key() == first
        (package / "notes.txt").write_text("changed")
        assert key() == first
        (package / "inner" / "rule.py").write_text("ANSWER = 2\n")
        second = key()
        assert second != first
        (package / "inner" / "rule.py").rename(package / "inner" / "law.py")
        assert key() not in (first, second)
    finally:
        code_key.cache_clear()


async def test_a_snapshot_of_other_code_is_not_read() -> None:
    log = MemoryLog()
    await filled(log, count=3, size=1)
    await log.save_snapshot(2, log.memory.records[1].digest, "other code", b"not for this code")
    assert await log.latest_snapshot(code_key()) is None
    assert isinstance(await fold(log), State)
