"""What several modules of these tests share."""

import pytest

from tests.daemon.cluster.client.builders import Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    """One CA for all: making a key takes a while."""
    return Authority()
