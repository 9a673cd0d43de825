"""Whose a token is and what its user may get, asked of the simulated API server."""

from pathlib import Path

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.reviews import Reviews
from daemon.cluster.server.simulated_api_server import running_server
from simulator.api_server.access_control import Rule, User
from simulator.scenario import Scenario

PODS = Rule(verbs=("get",), groups=("",), resources=("pods",), namespace="team-a")


async def test_a_token_has_a_user_who_may_get_what_its_rules_say(tmp_path: Path) -> None:
    async with running_server(Scenario(name="reviews")) as server:
        tokens = server.access.tokens
        tokens |= {"own": User("muster"), "ann": User("ann", (PODS,)), "old": User("o", (), 0)}
        path = server.kubeconfig(tmp_path / "kubeconfig", "own")
        client = await Client.connect(Access(kubeconfig=path), lambda: 0.5, "tests")
        try:
            reviews = Reviews(client)
            ann = await reviews.user_of("ann")
            assert ann is not None
            assert ann.username == "ann"
            assert await reviews.user_of("eve") is None
            assert await reviews.user_of("old") is None
            assert await reviews.may_get(ann, "Pod", "team-a", "a")
            assert not await reviews.may_get(ann, "PodGroup", "team-a", "a")
            assert not await reviews.may_get(ann, "Pod", "team-b", "a")
        finally:
            await client.close()
