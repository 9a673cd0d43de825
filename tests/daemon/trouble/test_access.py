"""Trouble with the way to the API server: it is away, not trusted, does not know us, or forbids too much."""

import asyncio
from pathlib import Path

import msgspec

from daemon.cluster.server.simulated_api_server import Listening, Server
from events.decisions.gang_bind import GangBindDecided
from events.outcome import BindFailed, StatusUpdateFailed
from events.watch import WatchClosed
from simulator.api_server.access_control import User
from tests.daemon.cluster.client.builders import Authority
from tests.daemon.trouble.rig import Given, StartTrial
from tests.storm.over_http.hurry import hurriedly


def kubeconfig(server: Server, folder: Path, **named: Path) -> Path:
    """One that names files for the CA and for the token."""
    path = server.kubeconfig(folder / "kubeconfig")
    document = msgspec.json.decode(path.read_bytes())
    if "ca" in named:
        document["clusters"][0]["cluster"] = {
            "server": server.url,
            "certificate-authority": str(named["ca"]),
        }
    if "token" in named:
        document["users"][0]["user"] = {"tokenFile": str(named["token"])}
    path.write_bytes(msgspec.json.encode(document))
    return path


@hurriedly
async def test_a_server_that_is_away_at_the_start_is_waited_for(trouble: StartTrial) -> None:
    async with trouble(Given(is_up=False)) as one:
        await one.until(lambda: "api" in one.reasons)
        await asyncio.sleep(100)
        await one.until(
            lambda: one.server.url.removeprefix("http://") in one.reasons.get("api", "")
        )
        assert not one.memory.records, "nobody was elected"
        await one.server.go_up()
        one.pod("a")
        await one.until_bound("a")
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_a_server_that_goes_away_for_a_while_is_found_again(trouble: StartTrial) -> None:
    async with trouble() as one:
        one.pod("a")
        await one.until_bound("a")
        await one.server.go_down()
        one.pod("b")
        await one.until(lambda: one.reasons)
        await asyncio.sleep(120)
        await one.server.go_up()
        await one.until_bound("b")
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_a_certificate_that_is_wrong_is_named_until_it_is_right(trouble: StartTrial) -> None:
    """K15.1: nothing is asked of a server that is not trusted; one that is trusted later is found."""
    ours, other = Authority(), Authority()
    listening = Listening(tls=ours.server_context("127.0.0.1"))

    def write(server: Server, folder: Path) -> Path:
        (folder / "ca.crt").write_bytes(other.pem)
        return kubeconfig(server, folder, ca=folder / "ca.crt")

    async with trouble(Given(listening=listening, kubeconfig=write)) as one:
        await one.until(lambda: "certificate" in one.reasons.get("api", ""))
        await asyncio.sleep(100)
        assert not one.server.shell.journal.entries
        (one.folder / "ca.crt").write_bytes(ours.pem)
        one.pod("a")
        await one.until_bound("a")
        await one.until(lambda: not one.reasons)


def with_token(server: Server, folder: Path) -> Path:
    """A kubeconfig whose token stands in a file of its own, and a server that knows this token for 200 s."""
    (folder / "token").write_text("old\n")
    expires_ns = server.shell.now_ns + 200 * 1_000_000_000
    server.access.tokens["old"] = User("muster", expires_ns=expires_ns)
    server.access.tokens["admin"] = User("admin")
    return kubeconfig(server, folder, token=folder / "token")


@hurriedly
async def test_a_token_that_is_replaced_in_time_is_never_missed(trouble: StartTrial) -> None:
    """K15.1: a watch goes on with the token that it was opened with; all else takes the new one."""
    async with trouble(Given(kubeconfig=with_token)) as one:
        one.pod("a")
        await one.until_bound("a")
        await asyncio.sleep(120)
        one.server.access.tokens["new"] = User("muster")
        (one.folder / "token").write_text("new\n")
        await asyncio.sleep(400)
        assert one.terms == 1
        one.pod("b")
        await one.until_bound("b")
        assert not one.reasons


@hurriedly
async def test_a_token_that_expired_is_named_and_a_new_one_is_taken_up(trouble: StartTrial) -> None:
    """K3.9: 401 in the middle of everything. Without a renewal of the lease nothing is done (K14.4)."""
    async with trouble(Given(kubeconfig=with_token)) as one:
        one.pod("a")
        await one.until_bound("a")
        await asyncio.sleep(250)
        await one.until(lambda: "401" in str(one.reasons))
        one.pod("b")
        await asyncio.sleep(100)
        assert not one.node_of("b")
        one.server.access.tokens["new"] = User("muster")
        (one.folder / "token").write_text("new\n")
        await one.until_bound("b")
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_without_leave_to_list_pods_nothing_is_decided(trouble: StartTrial) -> None:
    """K3.9: named with the verb, asked for each minute; afterwards all goes on."""
    async with trouble(Given(denied=("list", "pods"))) as one:
        one.pod("a")
        await one.until(lambda: "watch/Pod" in one.reasons)
        await asyncio.sleep(100)
        await one.until(lambda: "list pods" in one.reasons.get("watch/Pod", ""))
        await one.until(lambda: "list pods" in one.reasons.get("access", ""))
        assert not one.events(GangBindDecided)
        one.server.access.denied.clear()
        await one.until_bound("a")
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_pods_that_may_not_be_bound_are_tried_again_when_they_may(
    trouble: StartTrial,
) -> None:
    """K8: 403 gives up the pod for now; K15.3: what is missing is named."""
    async with trouble(Given(denied=("create", "pods/binding"))) as one:
        one.pod("a")
        await one.until(lambda: one.events(BindFailed))
        await asyncio.sleep(100)
        await one.until(lambda: "create pods/binding" in one.reasons.get("access", ""))
        one.server.access.denied.clear()
        await one.until_bound("a")
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_pods_are_bound_when_pod_status_patches_are_forbidden(trouble: StartTrial) -> None:
    async with trouble(Given(denied=("patch", "pods/status"))) as one:
        one.pod("big", containers=[{"name": "m", "resources": {"requests": {"cpu": "99"}}}])
        one.pod("a")
        await one.until_bound("a")
        await one.until(lambda: one.events(StatusUpdateFailed))
        await asyncio.sleep(100)
        await one.until(lambda: "patch pods/status" in one.reasons.get("access", ""))
        assert len(one.events(StatusUpdateFailed)) < 10
        one.server.access.denied.clear()
        await one.until(lambda: not one.reasons)


@hurriedly
async def test_a_server_that_forbids_everything_for_a_moment_is_not_left_for_a_minute(
    trouble: StartTrial,
) -> None:
    """A server that has just begun says so of all, until it has read the rules."""
    async with trouble() as one:
        one.pod("a")
        await one.until_bound("a")
        one.server.access.tokens["admin"] = User("admin")
        one.server.shell.break_connections()
        await asyncio.sleep(3)
        one.server.access.tokens.clear()
        one.pod("b")
        await one.until(lambda: one.node_of("b"), seconds=20)
        assert {event.cause for event in one.events(WatchClosed)} >= {"forbidden"}


@hurriedly
async def test_crds_may_come_at_any_time_and_go(trouble: StartTrial) -> None:
    """Without them a group is one pod; with them a gang is held until it is whole."""
    async with trouble(Given(has_volcano=False)) as one:
        one.pod("a")
        await one.until_bound("a")
        one.install_volcano()
        one.group("gang", minimum=2)
        one.pod("g1", group="gang")
        await one.until(lambda: "default/gang" in one.state.cluster.groups)
        await asyncio.sleep(60)
        assert not one.node_of("g1")
        one.pod("g2", group="gang")
        await one.until_bound("g1", "g2")
        one.remove_volcano()
        one.pod("b")
        await one.until_bound("b")
