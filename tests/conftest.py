"""What tests of several folders share: a real API server, started once and only where it is used."""

import gc
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from hypothesis import settings

import features.table  # noqa: F401  # nodes have devices of the families of the table
from daemon.memory_tuning import collect_rarely
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster, own_plane, prepared

# A busy machine is no fault of an example's. The same examples each time, so that a change that fails is at fault;
# `make soak` draws others.
settings.register_profile("same-examples", deadline=None, derandomize=True)
settings.register_profile("other-examples", deadline=None, print_blob=True)
settings.load_profile("same-examples")

# As the daemon does it: by default a tenth of the time goes into looking through what the tests keep.
collect_rarely()


def pytest_collection_finish() -> None:
    """Leave the modules and the list of tests to the end of the process."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _nothing_old_to_look_through() -> None:
    """Leave what earlier modules keep to the end of the process too: some tests collect a hundred times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _what_is_said() -> Iterator[None]:
    """Reset logging: a command that ran in this process configured it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster that most tests share: each keeps to names of its own."""
    with prepared() as cluster:
        yield cluster


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A cluster that the test may kill, and has to itself."""
    with own_plane() as cluster:
        yield cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Api]:
    """Someone who may do everything in the shared cluster."""
    async with Api.of(cluster.admin) as api:
        yield api
