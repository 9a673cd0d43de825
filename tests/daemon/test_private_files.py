"""What holds objects of a whole cluster is read by its owner alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.cluster.world_file import WorldFile
from daemon.log.copying import export
from daemon.log.opening import open_log
from daemon.log.sqlite import BESIDE
from simulator.scenario import parse_scenario
from tests.daemon.log.contract import filled


def modes(folder: Path) -> dict[str, int]:
    """The permissions of each file in a folder."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def _open_mask() -> Iterator[None]:
    """As where the shell's mask takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


async def test_a_log_and_all_beside_it_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    log = await open_log(str(path), "write")
    await filled(log)
    reader = await open_log(str(path))
    await export(reader, tmp_path / "a.muster")
    found = modes(tmp_path)
    assert found.keys() == {"a.db", "a.db-wal", "a.db-shm", "a.db.lock", "a.muster"}
    assert set(found.values()) == {0o600}
    await reader.close()
    await log.close()


async def test_a_log_that_others_could_read_is_made_private_and_that_is_logged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    await (await open_log(str(path), "write")).close()
    for name in ("a.db", "a.db.lock"):
        (tmp_path / name).chmod(0o644)
    left = [tmp_path / f"a.db{suffix}" for suffix in BESIDE if suffix != "-journal"]
    for one in left:
        one.touch(mode=0o640)
    with capture_logs() as said:
        await (await open_log(str(path), "write")).close()
    assert set(modes(tmp_path).values()) == {0o600}
    told = {line["path"]: line["mode"] for line in said}
    # SQLite may have made those beside the file like the file before.
    assert told.items() >= {str(path): "0644", f"{path}.lock": "0644"}.items()


async def test_reading_changes_no_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await open_log(str(path), "write")).close()
    path.chmod(0o644)
    await (await open_log(str(path))).close()
    assert modes(tmp_path)["a.db"] == 0o644


def test_a_world_file_is_private(tmp_path: Path) -> None:
    scenario = parse_scenario("scenario: a test\ncluster: []\n", "test.yaml")
    WorldFile(tmp_path / "world", scenario, 0).close()
    assert modes(tmp_path) == {"world": 0o600}
