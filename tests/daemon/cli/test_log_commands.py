"""The commands that ask a log: `state`, `tell`, `why`, and `log`."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from daemon.cli.kinds import kinds_named
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, logged, muster


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 25 records: p1 is bound, p2 is refused."""
    return logged(tmp_path_factory.mktemp("asked"))


def test_state_tells_queues_nodes_groups_and_pods(log: Path) -> None:
    result = muster("state", log)
    for line in ("queues: 1 (3 rows)", "nodes: 2", "pod groups: 2", "pods: 2"):
        assert line in result.stdout.splitlines()
    cells = [line.split() for line in result.stdout.splitlines()]
    assert ["q1", "NVIDIA-H200", "1", "1", "1", "1", "0", "2", "0"] in cells


def test_state_can_be_asked_for_any_position(log: Path) -> None:
    (now,) = documents(muster("state", log, "-o", "json"))
    (then,) = documents(muster("state", log, "--at", "18", "-o", "json"))
    assert (now["position"], then["position"]) == (25, 18)
    assert isinstance(now["pods"], list)
    assert isinstance(then["pods"], list)
    assert [pod["status"] for pod in then["pods"]] == ["pending", "pending"]
    assert now["pods"][0] == {
        "pod": "default/p1",
        "uid": "uid-000004",
        "pod_group": "default/podgroup-uid-000004",
        "status": "running",
        "node": "n1",
        "cards": {"NVIDIA-H200": 1},
        "devices": [],
    }


def test_a_position_that_is_not_there_is_refused(log: Path) -> None:
    result = muster("state", log, "--at", "26")
    assert (result.exit_code, "holds positions 1 to 25" in error_of(result)) == (2, True)


def test_tell_prints_one_line_per_record(log: Path) -> None:
    lines = muster("tell", log, "--from", "19", "--to", "22").stdout.splitlines()
    assert lines[0].split() == ["19", "1.000s", "cycle"]
    assert "bind default/podgroup-uid-000004 in q1: default/p1 -> n1" in lines[-1]
    told = documents(muster("tell", log, "--from", "19", "--to", "22", "-o", "json"))
    assert [one["position"] for one in told] == [19, 20, 21, 22]
    assert told[0]["lines"] == ["cycle"]


@pytest.mark.parametrize(
    ("stretch", "said"),
    [
        (["--from", "26"], "--from 26: "),
        (["--from", "999", "--to", "1000"], "--from 999: "),
        (["--from", "25", "--to", "26"], "--to 26: "),
        (["--to", "0"], "--to 0: "),
        (["--from", "3d"], "--from 259200.000s is after its last record: "),
        (["--to", "-3d"], "is before its first record: "),
    ],
)
def test_a_stretch_without_a_record_is_refused(log: Path, stretch: list[str], said: str) -> None:
    result = muster("tell", log, *stretch)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in error_of(result)
    assert "holds positions 1 to 25" in error_of(result)


def test_a_stretch_that_ends_before_it_begins_is_refused(log: Path) -> None:
    for command in (("tell",), ("log", "export", "--file", "a.muster"), ("replay",)):
        result = muster(*command, log, "--from", "20", "--to", "10")
        assert (result.exit_code, result.stdout) == (2, "")
        assert error_of(result) == "--from 20 comes after --to 10"


def positions(log: Path, *stretch: str) -> list[object]:
    """The positions that `tell` prints for a stretch."""
    return [one["position"] for one in documents(muster("tell", log, *stretch, "-o", "json"))]


def test_a_stretch_can_be_named_by_times(log: Path) -> None:
    told = documents(muster("tell", log, "-o", "json"))
    times = [int(str(one["recorded_at_ns"])) for one in told]
    of_second = [at for at, time in enumerate(times, 1) if time == 1_000_000_000]
    assert of_second
    for moment in ("1s", "1970-01-01T00:00:01Z", "1970-01-01T01:00:01+01:00", "00:00:01"):
        assert positions(log, "--from", moment, "--to", moment) == of_second
    length = f"-{times[-1] - 1_000_000_000}ns"
    assert positions(log, "--from", length, "--to", length) == of_second


def test_every_command_takes_the_same_moments(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a.muster"
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    change = tmp_path / "change.yaml"
    change.write_text("policy: {actions: 'allocate', tiers: []}\n")
    pod = tmp_path / "pod.yaml"
    pod.write_text("{kind: Pod, metadata: {name: p3}, spec: {containers: [{name: c}]}}\n")
    waits = "pending pod_group=default/p2"
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("why", "Queue/q1", "--log", log, "--at"),
        ("queue", "list", "--log", bundle, "--at"),
        ("queue", "show", "q1", "--log", log, "--at"),
        ("group", "list", "--log", log, "--at"),
        ("fit", pod, "--log", log, "--at"),
        ("topology", log, "--at"),
        ("reduce", log, "--keep", waits, "--to"),
        ("reduce", log, "--keep", waits, "--from"),
        ("state", log, "--at"),
        ("state", bundle, "--at"),
        ("tell", log, "--from"),
        ("tell", log, "--to"),
        ("incident", log, "--at"),
        ("replay", log, "--from"),
        ("replay", log, "--to"),
        ("log", "tail", log, "--since"),
        ("log", "export", log, "--force", "--file", bundle, "--to"),
        ("what-if", log, "--change", change, "--at"),
    )
    for words in commands:
        for moment in ("20", "1s", "1970-01-01T00:00:01Z", "00:00:01", "-0s"):
            result = muster(*words, moment)
            assert result.exit_code in (0, 1) or "before its end" in error_of(result), words
        for moment in ("0", "26", "1d", "-1d", "1969-12-31T23:59:59Z", "2026-01-31T09:30:00Z"):
            result = muster(*words, moment)
            assert result.exit_code == 2, (words, moment)
            assert "holds positions 1 to 25" in error_of(result)
        for moment in ("", "soon", "-3", "25:00", "2026-01-31T09:30:00", "9" * 30, "1e9s"):
            result = muster(*words, moment)
            assert result.exit_code == 2, (words, moment)
            assert "Invalid value for '--" in error_of(result)


def test_what_stands_in_no_namespace_is_named_without_one(log: Path) -> None:
    for name in ("Node/n1", "Queue/q1"):
        told = muster("why", name, "--log", log).stdout
        assert told.startswith(f"{name} at position 25 ")
    (answer,) = documents(muster("why", "Node/n1", "--log", log, "-o", "json"))
    assert answer["subject"] == "Node//n1"


def test_why_answers_for_now_and_for_then(log: Path) -> None:
    assert "InsufficientScalarQuota" in muster("why", "default/p2", "--log", log).stdout
    then = muster("why", "default/p2", "--log", log, "--at", "18")
    assert then.exit_code == 0
    assert "at position 18 (1.000s)" in then.stdout
    (answer,) = documents(muster("why", "default/p1", "--log", log, "-o", "json"))
    assert answer["subject"] == "Pod/default/p1"
    result = muster("why", "nobody", "--log", log)
    assert (result.exit_code, "'nobody' is not in the log" in error_of(result)) == (2, True)


def test_a_sound_log_is_said_to_be_sound(log: Path) -> None:
    (document,) = documents(muster("log", "verify", log, "-o", "json"))
    assert (document["position"], document["records"], document["redacted"]) == (25, 25, 0)
    assert "sound: 25 records" in muster("log", "verify", log).stdout


def test_a_bundle_holds_what_its_log_holds(log: Path, tmp_path: Path) -> None:
    bundle, copy = tmp_path / "a.muster", tmp_path / "copy.db"
    (told,) = documents(muster("log", "export", log, "--file", bundle, "-o", "json"))
    (back,) = documents(muster("log", "import", bundle, "--log", copy, "-o", "json"))
    assert told["digest"] == back["digest"]
    assert muster("tell", copy).stdout == muster("tell", log).stdout
    result = muster("log", "import", bundle, "--log", copy)
    assert (result.exit_code, "is not empty" in error_of(result)) == (2, True)


def test_kinds_can_be_left_out_of_a_bundle(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a.muster"
    assert muster("log", "export", log, "--file", bundle, "--leave-out", "Node").exit_code == 0
    (document,) = documents(muster("log", "verify", bundle, "-o", "json"))
    assert document["redacted"] == 2


def test_the_name_of_a_bundle_ends_as_one(log: Path, tmp_path: Path) -> None:
    result = muster("log", "export", log, "--file", tmp_path / "a.zip")
    assert (result.exit_code, ".muster" in error_of(result)) == (2, True)


def test_the_tail_of_a_log_is_its_last_records(log: Path) -> None:
    assert len(muster("log", "tail", log).stdout.splitlines()) == 10
    last = documents(muster("log", "tail", log, "-n", "2", "-o", "json"))
    assert [one["position"] for one in last] == [24, 25]
    assert last[0]["kind"] == "object_observed.v1"


def test_a_tail_begins_at_a_moment_and_shows_times(log: Path) -> None:
    lines = muster("log", "tail", log, "--since", "20").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["20", "21", "22", "23", "24", "25"]
    assert lines[0].split()[1:3] == ["1.000s", "enqueue_decided.v1"]
    result = muster("log", "tail", log, "--since", "20", "-n", "3")
    assert (result.exit_code, "exclude each other" in error_of(result)) == (2, True)


def test_a_tail_follows_until_it_is_interrupted(log: Path) -> None:
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "daemon", "log", "tail", str(log), "-n", "1", "-f", "-o", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["position"] == 25
            process.send_signal(2)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()  # A shell may have it ignore the signal; it must not outlive the test.
    assert (process.returncode, said.strip()) == (130, "muster: interrupted")


def test_why_does_not_answer_from_a_damaged_log(log: Path, tmp_path: Path) -> None:
    """It names the position, as every other reader does."""
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(log.read_bytes())
    with closing(sqlite3.connect(damaged)) as connection, connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE log SET subject = subject || 'x' WHERE position = 3")
    result = muster("why", "default/a-1", "--log", str(damaged))
    assert result.exit_code == 4
    assert "position 3: the digest does not fit" in error_of(result)


SELECTED = ("device-info", "node-info", "cluster-info", "switch-map")
REPORTS = [f"ConfigMap.{one}" for one in SELECTED]
CONFIG_MAPS = [*REPORTS, "ConfigMap"]
PODS = ("Pod", "pods", "pod", "PODS", "po", " pods ", "pods.v1.", "pods.")


@pytest.mark.parametrize("name", PODS)
def test_a_kind_is_named_as_for_kubectl(log: Path, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "a.muster"
    (document,) = documents(
        muster("log", "export", log, "--file", bundle, "--leave-out", name, "-o", "json")
    )
    assert document["left_out"] == {"Pod": 4}
    assert b"Pending" not in unpacked(bundle)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("podgroups.scheduling.volcano.sh", ["PodGroup"]),
        ("podgroups.v1beta1.scheduling.volcano.sh", ["PodGroup"]),
        ("PodGroup.scheduling.volcano.sh", ["PodGroup"]),
        ("pg", ["PodGroup"]),
        ("no", ["Node"]),
        ("cm", CONFIG_MAPS),
        ("configmaps", CONFIG_MAPS),
        ("deploy", ["Deployment"]),
        ("deployments.apps", ["Deployment"]),
        ("jobs", ["Job", "Job.batch.volcano.sh"]),
        ("jobs.batch", ["Job"]),
        ("jobs.batch.volcano.sh", ["Job.batch.volcano.sh"]),
        ("vcjob", ["Job.batch.volcano.sh"]),
    ],
)
def test_a_name_means_a_kind(name: str, kinds: list[str]) -> None:
    assert kinds_named(name) == kinds


@pytest.mark.parametrize("name", ["secrets", "pods.apps", "podd", "", "Pod/default/a", "pods*"])
def test_a_kind_that_no_log_holds_is_refused(log: Path, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "a.muster"
    result = muster("log", "export", log, "--file", bundle, "--redact", name)
    assert result.exit_code == 2
    assert f"--redact {name}: no log holds objects of such a kind; it may hold nodes (no), " in (
        error_of(result)
    )
    assert not bundle.exists()


def test_an_export_says_how_many_objects_it_leaves_out(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a.muster"
    words = ("--leave-out", "pods", "--leave-out", "nodes", "--leave-out", "ConfigMap")
    assert muster("log", "export", log, "--file", bundle, *words).stdout.splitlines()[1:] == [
        *(f"left out: 0 {kind} objects" for kind in sorted(CONFIG_MAPS)),
        "left out: 2 Node objects",
        "left out: 4 Pod objects",
    ]


def test_an_export_replaces_a_file_only_where_forced(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a.muster"
    bundle.write_text("notes")
    result = muster("log", "export", log, "--file", bundle)
    said = f"{bundle} is there already; --force replaces it"
    assert (result.exit_code, error_of(result)) == (2, said)
    assert bundle.read_text() == "notes"
    assert muster("log", "export", log, "--file", bundle, "--force").exit_code == 0
    assert muster("log", "verify", bundle).exit_code == 0
    link = tmp_path / "b.muster"
    link.symlink_to(tmp_path / "nowhere")
    assert muster("log", "export", log, "--file", link).exit_code == 2


def unpacked(bundle: Path) -> bytes:
    with bundle.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def test_a_redacted_bundle_says_what_was_redacted_and_replays(log: Path, tmp_path: Path) -> None:
    bundle, key, names = (tmp_path / one for one in ("a.muster", "our.key", "names"))
    words = ("log", "export", log, "--file", bundle, "--redact", "po", "--redact", "queues")
    result = muster(*words, "--key", key, "--names", names)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{bundle}: positions 1 to 25, under pseudonyms",
        "redacted: 2 Pod objects",
        "redacted: 1 Queue object",
        f"key: {key}; keep it secret",
        "every decision is made again under pseudonyms",
    ]
    assert muster("replay", bundle).exit_code == 0
    pseudonyms = dict(line.split("\t") for line in names.read_text("utf-8").splitlines())
    (pod,) = [one for one, name in pseudonyms.items() if name == "p1"]
    assert muster("why", f"default/{pod}", "--log", bundle).exit_code == 0
    before = bundle.read_bytes()
    again = muster(*words, "--key", key)
    assert (again.exit_code, "is there already; --force replaces it" in error_of(again)) == (
        2,
        True,
    )
    assert bundle.read_bytes() == before
    assert muster(*words, "--key", key, "--force").exit_code == 0
    assert unpacked(bundle).count(pod.encode()) > 1


def test_a_kind_of_which_there_is_nothing_cannot_be_redacted(log: Path, tmp_path: Path) -> None:
    result = muster("log", "export", log, "--file", tmp_path / "a.muster", "--redact", "hypernodes")
    assert result.exit_code == 2
    assert "--redact hypernodes: the log holds no such objects up to 25" in error_of(result)


def test_options_of_an_export_that_exclude_each_other(log: Path, tmp_path: Path) -> None:
    words = ("log", "export", log, "--file", tmp_path / "a.muster")
    for more, message in (
        (("--redact", "all", "--leave-out", "Pod"), "exclude each other"),
        (("--key", tmp_path / "k"), "belong to --redact"),
    ):
        result = muster(*words, *more)
        assert (result.exit_code, message in error_of(result)) == (2, True)
    assert not list(tmp_path.iterdir())
