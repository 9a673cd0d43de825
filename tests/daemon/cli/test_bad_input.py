"""Whatever is wrong with an input, one line says what and where, and nothing is lost."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.log.opening import open_log
from tests.daemon.cli.builders import QUOTA, error_of, logged, muster, muster_apart, scenario

NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: CPU}}}"

SCENARIOS = {
    "an unknown key": ("peroid: 1s", ":2: a scenario has no key 'peroid'"),
    "an unknown key that is to be null": (
        "expect:\n  pods: {}\n  evictd: null",
        ":4: expect has no key 'evictd'",
    ),
    "an unknown key that is to be empty": (
        "expect: {decisons: []}",
        ":2: expect has no key 'decisons'; known are scenario, at_seconds, log, decisions, ",
    ),
    "a wrong type": ("cluster: {}", ":2: cluster must be a list"),
    "an impossible time": ("until: 60s\nsteps: [{at: -1s, delete: []}]", ":3: at: "),
    "a time after the end": ("until: 1s\nsteps: [{at: 2s, delete: []}]", ":3: "),
    "a name twice": (
        f"cluster:\n  - {NODE}\n  - {NODE}".replace("CPU", "1"),
        ":4: Node n1 is there",
    ),
    "an odd quantity": (f"cluster:\n  - {NODE}".replace("CPU", "1.5x"), "1.5x"),
    "no name": ("cluster: [{apiVersion: v1, kind: Node}]", ":2: "),
    "a kind that is not read": (
        "cluster: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]",
        ":2: ",
    ),
    "not YAML": ("cluster: [", ": not YAML: "),
    "a policy that is not there": ("policy_file: other.yaml", "other.yaml: No such file"),
    "the line of a policy that is not there": (
        "until: 9s\npolicy_file: other.yaml",
        "scenario.yaml:3: ",
    ),
    "a policy of a folder that is not named": (
        "until: 9s\npolicy_file: ${NOWHERE_AT_ALL}/a.yaml",
        ":3: the environment variable NOWHERE_AT_ALL is not set",
    ),
    "a malformed policy": ("until: 9s\npolicy: {actions: [1]}", ":3: policy: actions: "),
    "a policy that contradicts itself": (
        "policy:\n  tiers: [{plugins: [{name: proportion}, {name: capacity-card}]}]",
        ":2: policy: tiers: ",
    ),
    "an unknown workload": ("workload: other", ":2: workload: 'other' is not known"),
    "a trace that is not there": (
        "trace: {format: openb, nodes: n.csv, pods: p.csv}",
        "n.csv: No such file or directory",
    ),
}


@pytest.mark.parametrize(("text", "said"), SCENARIOS.values(), ids=SCENARIOS)
def test_a_malformed_scenario_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = scenario(tmp_path, text)
    result = muster("simulate", path)
    assert result.exit_code == 2
    error = error_of(result)
    assert error.startswith(str(path))
    assert said in error


def test_a_trace_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("sn,cpu_milli,memory_mib,model\n")
    (tmp_path / "p.csv").write_text("")
    path = scenario(tmp_path, "trace: {format: openb, nodes: n.csv, pods: p.csv}")
    assert error_of(muster("simulate", path)) == "n.csv: column gpu is missing"


POLICIES = {
    "not a mapping": ("[]", ":1: a policy must be a mapping"),
    "an action of another type": ("actions: 7", "actions: expected text, got 7"),
    "an unknown action": ("actions: alocate", "actions: 'alocate' is not an action"),
    "two that keep quotas": (
        "tiers: [{plugins: [{name: capacity}, {name: capacity-card}]}]",
        "capacity",
    ),
    "a weight that is no number": (
        "tiers: [{plugins: [{name: binpack, arguments: {binpack.weight: much}}]}]",
        "tiers[0].plugins[0].arguments.binpack.weight: ",
    ),
}


@pytest.mark.parametrize(("text", "said"), POLICIES.values(), ids=POLICIES)
def test_a_malformed_policy_is_named_with_its_path(tmp_path: Path, text: str, said: str) -> None:
    log, policy = logged(tmp_path), tmp_path / "policy.yaml"
    policy.write_text(text)
    result = muster("replay", log, "--policy", policy)
    assert result.exit_code == 2
    error = error_of(result)
    assert error.startswith(str(policy))
    assert said in error


def test_an_unknown_plugin_is_a_warning_in_the_log(tmp_path: Path) -> None:
    text = "policy: {actions: allocate, tiers: [{plugins: [{name: gangs}]}], extra: 1}\n"
    result = muster("simulate", scenario(tmp_path, text), "--log", tmp_path / "a.db")
    assert result.exit_code == 0, result.output
    told = muster("tell", tmp_path / "a.db").stdout
    assert "policy warning: tiers[0].plugins[0]" in told
    assert "policy warning: extra" in told
    assert muster("replay", tmp_path / "a.db").exit_code == 0


READING = (
    ["replay", "LOG"],
    ["state", "LOG"],
    ["topology", "LOG"],
    ["tell", "LOG"],
    ["log", "verify", "LOG"],
    ["log", "tail", "LOG"],
    ["why", "default/p1", "--log", "LOG"],
    ["rebuild", "--log", "LOG"],
)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_is_no_log_is_refused_and_left_alone(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "notes.db"
    path.write_text("not a log\n")
    result = muster(*[str(path) if word == "LOG" else word for word in words])
    assert (result.exit_code, error_of(result)) == (2, f"{path} is not a muster log")
    assert path.read_text() == "not a log\n"


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_log_that_is_not_there_is_not_made(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "none.db"
    result = muster(*[str(path) if word == "LOG" else word for word in words])
    assert (result.exit_code, error_of(result)) == (2, f"{path}: there is no such log")
    assert list(tmp_path.iterdir()) == []


def test_a_log_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    log = logged(tmp_path)
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("update log_head set format = 99")
        connection.commit()
    for words in (["replay"], ["state"], ["log", "verify"]):
        assert muster(*words, log).exit_code == 5


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    log = logged(tmp_path)
    log.write_bytes(log.read_bytes()[: 12 * 4096])
    for words in (["replay"], ["log", "verify"]):
        result = muster(*words, log)
        assert (result.exit_code, "position " in error_of(result)) == (4, True)


def test_a_torn_bundle_is_named(tmp_path: Path) -> None:
    path = scenario(tmp_path, "workload: {name: openb, scale: 0.02}\nuntil: 10s\n")
    log, bundle = tmp_path / "a.db", tmp_path / "a.muster"
    assert muster("simulate", path, "--log", log).exit_code == 0
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    bundle.write_bytes(bundle.read_bytes()[:-20])
    result = muster("replay", bundle)
    assert (result.exit_code, ": damaged " in error_of(result)) == (4, True)


def test_a_second_writer_of_a_log_is_kept_out(tmp_path: Path) -> None:
    async def hold() -> str:
        log = await open_log(str(tmp_path / "a.db"), "write")
        try:
            done = await asyncio.to_thread(
                muster_apart, "simulate", QUOTA, "--log", tmp_path / "a.db"
            )
        finally:
            await log.close()
        assert done.returncode == 3
        return done.stderr

    said = asyncio.run(hold())
    assert said.startswith("muster: error: ")
    assert said.count("\n") == 1


def test_a_database_server_that_is_away_is_the_outside_failing() -> None:
    result = muster("simulate", QUOTA, "--log", "postgresql://muster@127.0.0.1:1/muster")
    assert (result.exit_code, "127.0.0.1:1" in error_of(result)) == (3, True)


def test_a_full_disk_ends_a_simulation_and_harms_nothing(tmp_path: Path) -> None:
    path = scenario(tmp_path, "workload: {name: openb, scale: 0.2}\nuntil: 10s\n")
    log = tmp_path / "a.db"
    done = muster_apart("simulate", path, "--log", log, file_size=300 * 1024)
    assert done.returncode == 3
    assert done.stderr.startswith(f"muster: error: {log}: ")
    assert done.stderr.count("\n") == 1
    assert not log.exists()
    assert not (tmp_path / ".a.db.part").exists()


def test_more_records_than_a_tail_can_hold_are_refused(tmp_path: Path) -> None:
    result = muster("log", "tail", logged(tmp_path), "-n", "9" * 20)
    assert (result.exit_code, "'-n' / '--lines'" in error_of(result)) == (2, True)


def test_an_object_without_a_namespace_is_named_as_it_was_given(tmp_path: Path) -> None:
    log = logged(tmp_path)
    for more in ([], ["--diff"]):
        error = error_of(muster("object", "Queue/none", "--log", log, *more))
        assert " Queue/none up to position " in error


SETTINGS = {
    "an unknown key": ("perod_seconds: 1", "perod_seconds"),
    "a wrong type": ("holder: 7", "$.holder"),
    "nothing of a second": ("period_seconds: 0", "period_seconds must be more than nothing"),
    "not YAML": ("holder: [", "not YAML"),
    "a key twice": ("holder: a\nholder: b", ":2: the key 'holder' stands twice"),
    "a key twice below": ("pod_labels: [{a: 1, a: 2}]", ":1: the key 'a' stands twice"),
}


@pytest.mark.parametrize(("text", "said"), SETTINGS.values(), ids=SETTINGS)
def test_a_wrong_setting_names_the_key_and_the_file(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text(text)
    world, log = tmp_path / "w", tmp_path / "a.db"
    result = muster("run", "--simulate", QUOTA, "--world", world, "--log", log, "--config", config)
    assert result.exit_code == 2
    error = error_of(result)
    assert error.startswith(str(config))
    assert said in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--log", "w.db", "--listen", "", "--kubeconfig", "none.yaml"], "none.yaml: no such file"),
        (["--log", "w.db", "--world", "w"], "--world belongs to --simulate"),
        ([], "the log has no name"),
        (["--simulate", str(QUOTA), "--log", "w.db"], "--simulate needs --world FILE"),
        (["--simulate", str(QUOTA), "--world", "w"], "the log has no name"),
        (["--simulate", "none.yaml", "--world", "w", "--log", "w.db"], "none.yaml: No such file"),
    ],
)
def test_a_daemon_that_lacks_something_says_what(words: list[str], said: str) -> None:
    result = muster("run", *words)
    assert (result.exit_code, said in error_of(result)) == (2, True)
