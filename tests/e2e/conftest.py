"""A cluster and a rig for each test: a daemon sees the whole cluster, and so must have it to itself."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.control_plane.cluster import Cluster, prepared
from tests.e2e.rig import Rig, rigged

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need an API server."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.apiserver)


@pytest.fixture
def fresh() -> Iterator[Cluster]:
    """A cluster in which nothing is yet, or the one that is named."""
    with prepared() as cluster:
        yield cluster


@pytest.fixture
async def rig(fresh: Cluster, tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig on it."""
    async with rigged(fresh, tmp_path) as rig:
        yield rig
