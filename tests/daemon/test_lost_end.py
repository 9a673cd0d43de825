"""A daemon whose log lost its end, on an API server with its Lease: it decides nothing until the loss was accepted."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct, structs

from daemon import app
from daemon.clock import WallClock
from daemon.cluster.client.credentials import Access
from daemon.cluster.lease import LOG_ANCHOR, parse_lease
from daemon.cluster.server.simulated_api_server import Server, running_server
from daemon.log.anchors import Anchor, parse_anchor
from daemon.loop import Running
from daemon.observability import Observability
from daemon.settings import Settings
from daemon.simulation import policy_of
from daemon.stderr import Teller
from daemon.version import VERSION
from events.errors import DamagedLogError, LostRecordsError, MusterError
from scheduling.decide import DECIDER
from simulator.api_server.http_message import JSON, Request
from simulator.scenario import Scenario, parse_scenario
from tests.daemon.cli.builders import muster
from tests.daemon.standing_by import until
from tests.daemon.trouble.rig import NODE, PODS, pod

PATIENCE_SECONDS = 20.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/muster"


class Setting(Struct):
    """A server, and the daemons that run on it."""

    server: Server
    scenario: Scenario
    folder: Path
    log: str

    def add_pod(self, name: str) -> None:
        """A pod of ours comes."""
        body = msgspec.json.encode(pod(name))
        asked = Request(method="POST", path=PODS, body=body, content_type=JSON, token="")
        assert self.server.api.handle(asked).status == 201

    def is_bound(self, name: str) -> bool:
        """Whether a pod has a node."""
        found = self.server.api.simulated.find("Pod", "default", name)
        assert found is not None
        spec = found["spec"]
        assert isinstance(spec, dict)
        return bool(spec.get("nodeName"))

    def anchor(self) -> Anchor | None:
        """What the Lease states."""
        asked = Request(method="GET", path=LEASE, body=b"", content_type=JSON, token="")
        answer = self.server.api.handle(asked)
        if answer.status != 200:
            return None
        lease = parse_lease(answer.body, "the Lease")
        return parse_anchor(lease.anchor, LOG_ANCHOR) if lease.anchor else None

    @asynccontextmanager
    async def daemon(self, **settings: object) -> AsyncIterator[Observability]:
        """A daemon for as long as the block lasts, with its health; its error is raised at the end."""
        clock = WallClock()
        operation = Observability(clock.elapsed_ns, Teller(), VERSION, DECIDER)
        chosen = structs.replace(
            Settings(
                listen="", log=self.log, lease_seconds=3, renew_seconds=0.1, give_up_seconds=2.0
            ),
            **settings,
        )
        plan = app.DaemonConfig(
            settings=chosen,
            access=Access(kubeconfig=self.server.kubeconfig(self.folder / "kubeconfig")),
            log=self.log,
            running=Running(
                holder="test", version="1", period_ns=50_000_000, policy=policy_of(self.scenario)
            ),
        )
        life = app.DaemonApp(plan, operation, clock)
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(life.run())
            yield operation
            life.stop()
            await task

    async def refused(self, **settings: object) -> MusterError:
        """The error with which a daemon ends."""
        with pytest.raises(BaseExceptionGroup) as group:
            async with self.daemon(**settings):
                await asyncio.sleep(PATIENCE_SECONDS)
        error: BaseException = group.value
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, MusterError), repr(error)
        return error


@asynccontextmanager
async def on_a_server(folder: Path, log: str) -> AsyncIterator[Setting]:
    scenario = parse_scenario("scenario: a test\n" + NODE, "test.yaml")
    async with running_server(scenario) as server:
        yield Setting(server, scenario, folder, log)


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with on_a_server(tmp_path, str(tmp_path / "log.db")) as found:
        yield found


async def bound(setting: Setting, name: str) -> int:
    """Let a daemon bind a pod, and stop it; the position that the Lease states then."""
    async with setting.daemon():
        setting.add_pod(name)
        await until(lambda: setting.is_bound(name))
    anchor = setting.anchor()
    assert anchor is not None
    return anchor.position


async def test_a_log_behind_the_lease_is_not_decided_on_until_the_loss_was_accepted(
    setting: Setting, tmp_path: Path
) -> None:
    path = Path(setting.log)
    early = await bound(setting, "a")
    (tmp_path / "older").mkdir()
    for one in path.parent.glob("log.db*"):
        shutil.copyfile(one, tmp_path / "older" / one.name)
    late = await bound(setting, "b")
    assert early < late
    # The machine's disk was set back, with the anchor beside the log.
    for one in path.parent.glob("log.db*"):
        one.unlink()
    for one in (tmp_path / "older").iterdir():
        one.rename(path.parent / one.name)
    setting.add_pod("c")

    error = await setting.refused()
    assert isinstance(error, LostRecordsError)
    assert error.exit_code == 4
    assert f"the log ends at position {early}" in str(error)
    assert f"the Lease muster states that position {late} was written" in str(error)
    anchor = setting.anchor()
    assert anchor is not None
    assert anchor.position == late, "the Lease keeps what was lost"
    # A setting for another loss changes nothing.
    again = await setting.refused(accept_loss=(f"{late}:{'0' * 64}",))
    assert isinstance(again, LostRecordsError)
    assert not setting.is_bound("c"), "nothing is decided on a log that lost its end"

    async with setting.daemon(accept_loss=(f"{late}:{anchor.digest}",)) as operation:
        await until(lambda: setting.is_bound("c"))
        await until(lambda: "decisions" in operation.health.reasons)
        assert operation.health.is_ready
        assert "1 bound pods name decisions" in operation.health.reasons["decisions"]
        # The Lease follows the log from here on.
        await until(lambda: setting.anchor() != anchor)
    why = await asyncio.to_thread(muster, "why", "default/b", "--log", path)
    assert "bound by muster, as its annotation says, by decision" in why.stdout
    assert "which is not in this log" in why.stdout
    assert "another scheduler" not in why.stdout
    assert (
        "by decision" in (await asyncio.to_thread(muster, "why", "default/a", "--log", path)).stdout
    )
    told = await asyncio.to_thread(muster, "log", "verify", path)
    assert (
        f"positions {early + 1} to {late} were written, as the Lease muster states" in told.stdout
    )
    past = await asyncio.to_thread(muster, "history", "default/a", "--log", path)
    assert f"the log lost its end: positions {early + 1} to {late}" in past.stdout
    redacted = ("--redact", "all", "--key", tmp_path / "key", "--file", tmp_path / "one.muster")
    handed = await asyncio.to_thread(muster, "log", "export", path, *redacted)
    assert handed.exit_code == 0, handed.stderr
    theirs = await asyncio.to_thread(muster, "replay", tmp_path / "one.muster")
    assert theirs.exit_code == 0, theirs.stdout
    replayed = await asyncio.to_thread(muster, "replay", path)
    assert replayed.exit_code == 0, replayed.stdout
    assert "equal" in replayed.stdout
    # The same setting, which stays in the file, is no licence for the next loss.
    async with setting.daemon(accept_loss=(f"{late}:{anchor.digest}",)):
        setting.add_pod("d")
        await until(lambda: setting.is_bound("d"))


@pytest.mark.parametrize("has_lease", [True, False])
async def test_a_write_ahead_log_that_is_deleted_under_a_daemon_stops_it(
    setting: Setting, *, has_lease: bool
) -> None:
    async def loses_its_end() -> None:
        async with setting.daemon(leader_elect=has_lease):
            setting.add_pod("a")
            await until(lambda: setting.is_bound("a"))
            (setting.folder / "log.db-wal").unlink()
            await asyncio.sleep(PATIENCE_SECONDS)

    with pytest.raises(BaseExceptionGroup) as group:
        await loses_its_end()
    assert group.value.subgroup(DamagedLogError)
    setting.add_pod("b")
    error = await setting.refused(leader_elect=has_lease)
    assert isinstance(error, LostRecordsError)
    assert "states that position" in str(error)
    assert not setting.is_bound("b")
    named = re.findall(r"--anchor ([0-9]+:[0-9a-f]{64})", str(error))
    lost = [
        *named,
        *([] if (one := setting.anchor()) is None else [f"{one.position}:{one.digest}"]),
    ]
    async with setting.daemon(leader_elect=has_lease, accept_loss=tuple(lost)):
        await until(lambda: setting.is_bound("b"))


async def test_an_anchor_that_cannot_be_read_is_passed_over(setting: Setting) -> None:
    await bound(setting, "a")
    asked = Request(
        method="PATCH",
        path=LEASE,
        body=b'{"metadata": {"annotations": {"muster.sh/log-anchor": "nonsense"}}}',
        content_type="application/merge-patch+json",
        token="",
    )
    assert setting.server.api.handle(asked).status == 200
    await bound(setting, "b")
