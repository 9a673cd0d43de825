"""Whoever waits for the server can see that it is ready, as on a real one."""

import pytest

from simulator.api_server.access_control import User
from simulator.api_server.http_message import JSON
from tests.simulator.api_server.builders import ask, bare


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/ping", "/livez/ping"])
def test_a_running_server_is_healthy_also_for_those_without_a_token(path: str) -> None:
    api = bare()
    api.access.tokens["known"] = User("known")
    response = ask(api, "GET", path)
    assert (response.status, response.body) == (200, b"ok")
    assert ask(api, "GET", path, None, JSON, "expired").status == 401
    assert ask(api, "GET", path, None, JSON, "known").body == b"ok"


def test_the_checks_are_listed_on_request() -> None:
    lines = ask(bare(), "GET", "/readyz?verbose=true").body.decode().splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == "readyz check passed"


def test_there_is_no_check_of_another_name_and_nothing_to_post() -> None:
    assert ask(bare(), "GET", "/readyz/nothing").status == 404
    assert ask(bare(), "POST", "/readyz", {}).status == 405
