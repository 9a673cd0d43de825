"""The servers that must answer alike."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from tests.contract.served import Served, on_real, on_simulated
from tests.control_plane.cluster import Cluster

_numbers = count(1)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.apiserver)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    """A server, with a namespace that the test has to itself."""
    name = f"contract-{next(_numbers)}"
    if request.param == "real":
        async with on_real(request.getfixturevalue("cluster"), name) as served:
            yield served
    else:
        async with on_simulated(name, tmp_path) as served:
            yield served


@pytest.fixture
async def real(cluster: Cluster) -> AsyncIterator[Served]:
    """The real server alone, for what the simulated one lets pass: it checks less of what people write."""
    async with on_real(cluster, f"contract-{next(_numbers)}") as served:
        yield served
