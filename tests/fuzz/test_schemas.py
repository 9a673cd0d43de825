"""The stored schemas are those of the control plane that the tests run on."""

import pytest

from tests.control_plane.api import Api
from tests.fuzz.schemas import served, stored


@pytest.mark.apiserver
async def test_the_stored_schemas_are_what_the_api_server_serves(admin: Api) -> None:
    """Where they differ, `python -m tests.fuzz.schemas` writes them again."""
    assert await served(admin) == stored()
