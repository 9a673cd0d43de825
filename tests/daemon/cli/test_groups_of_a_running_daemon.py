"""`muster group` beside a running daemon: a change is observed, decides from then on, and is replayed."""

import signal
from pathlib import Path

import pytest

from tests.daemon.cli.builders import documents, muster
from tests.daemon.cli.test_run_over_http import DEADLINE_SECONDS, Daemon, ask, nodes, until

POLICY = "pools: [{name: default, decider: priority, slots: [cpu], preemptionTimeout: 0s}]\n"


def placed(pods: str) -> dict[str, str]:
    """Return the node of each pod by its UID."""
    items = ask(pods)["items"]
    assert isinstance(items, list)
    return {one["metadata"]["uid"]: one["spec"].get("nodeName", "") for one in items}


@pytest.mark.parametrize("move", [False, True], ids=["priority", "move"])
def test_a_waiting_job_that_becomes_more_important_takes_its_place(
    tmp_path: Path, move: bool
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    daemon = Daemon(tmp_path, "--policy", str(policy))
    try:
        server = daemon.told("simulated API server")
        pods = f"{server['url']}/api/v1/namespaces/default/pods"
        until(lambda: nodes(pods) == ["", "n1", "n1"])
        [waiting] = [uid for uid, node in placed(pods).items() if not node]
        first = next(uid for uid, node in placed(pods).items() if node)
        group, other = (f"default/podgroup-{uid}" for uid in (waiting, first))
        words = ("move", group, "--ahead-of", other) if move else ("set-priority", group, "80")
        changed = muster("group", *words, "--kubeconfig", server["kubeconfig"])
        assert changed.exit_code == 0, changed.output
        until(lambda: placed(pods).get(waiting) == "n1")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_SECONDS) == 0
    finally:
        daemon.process.kill()
        daemon.process.wait()
    [replayed] = documents(muster("replay", tmp_path / "run.db", "--output", "json"))
    assert replayed["equal"] is True
