"""`muster history`: what happened to a pod, group, node, queue or card, and the filters of `tell` and `log tail`."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.daemon.cli.builders import documents, error_of, muster, scenario
from tests.daemon.cli.growing_log import day_log, first_half, followed


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a day."""
    return day_log(tmp_path_factory.mktemp("history"))


def told(log: Path, subject: str, *words: str) -> list[tuple[object, ...]]:
    """Return seconds, first line and further lines of each event."""
    [answer] = documents(muster("history", subject, "--log", log, "-o", "json", *words))
    events = answer["events"]
    assert isinstance(events, list)
    return [(one["recorded_at_ns"] // 10**9, one["what"], *one["lines"]) for one in events]


def test_the_history_of_a_node_is_its_changes_and_the_pods_on_it(log: Path) -> None:
    assert told(log, "Node/n1") == [
        (0, "node n1 is seen: 8 H200, 64 cpu, 64Gi memory"),
        (
            10,
            "bind ml/train in q1: 2 pods (because of 23)",
            *(f"ml/a{i} -> n1, charged 4 H200" for i in (1, 2)),
        ),
        *((10, f"pod ml/a{i} is bound to n1") for i in (1, 2)),
        *(
            (10, f"pod ml/a{i}: {change}")
            for i in (1, 2)
            for change in ("decided -> bound", "bound -> running")
        ),
        (30, "node n1: cordoned"),
        (40, "node n1: allocatable nvidia.com/gpu 8 -> 7"),
        (70, "pod ml/a1: running -> succeeded"),
        (70, "pod ml/a2: running -> succeeded"),
    ]
    assert told(log, "Node/n2") == [(0, "node n2 is seen: 8 H200, 64 cpu, 64Gi memory")]


def test_the_history_of_a_queue_is_its_jobs_and_its_quota(log: Path) -> None:
    assert told(log, "Queue/q1") == [
        (0, "queue q1 is seen: capability cpu 64, memory 64Gi; card quota H200 8"),
        (10, "pod group ml/train comes: minimum 2, Pending"),
        (10, "admit ml/train to q1 (because of 19)"),
        (
            10,
            "bind ml/train in q1: 2 pods (because of 23)",
            *(f"ml/a{i} -> n1, charged 4 H200" for i in (1, 2)),
        ),
        (10, "pod group ml/train: Inqueue -> Running"),
        (20, "queue q1: capability cpu 64 -> 32", "card quota H200 8 -> 4"),
        (70, "pod ml/a1 on n1: running -> succeeded"),
        (70, "pod group ml/train: Running -> Completed", "pod ml/a2 on n1: running -> succeeded"),
    ]


@pytest.mark.parametrize("card", ["Card/H200", "Card/n1/H200"])
def test_the_history_of_a_card_is_who_had_it_and_how_many_there_were(log: Path, card: str) -> None:
    assert told(log, card, "--from", "1s") == [
        (
            10,
            "pod ml/a1 gets 4 H200 on n1: binding (decision 25)",
            "pod ml/a2 gets 4 H200 on n1: binding",
        ),
        *(
            (10, f"pod ml/a{i}, which has 4 H200 on n1: {change}")
            for i in (1, 2)
            for change in ("binding -> bound", "bound -> running")
        ),
        (40, "node n1: allocatable nvidia.com/gpu 8 -> 7"),
        (70, "pod ml/a1 frees 4 H200 on n1: succeeded"),
        (70, "pod ml/a2 frees 4 H200 on n1: succeeded"),
    ]
    assert told(log, "Card/n2/H200", "--from", "1s") == []


def test_the_history_of_a_pod_leaves_out_the_rest_of_its_gang(log: Path) -> None:
    events = told(log, "ml/a1")
    assert (10, "bind ml/train in q1: ml/a1 -> n1, charged 4 H200 (because of 23)") in events
    assert (
        70,
        "pod ml/a1: phase Running -> Succeeded, condition Ready removed (answers 25)",
    ) in events
    assert not any("a2" in str(one) for one in events)
    # What comes in a stretch is compared with what was there before.
    late = told(log, "ml/a1", "--since", "60s")
    assert late[0] == (
        70,
        "pod ml/a1: phase Running -> Succeeded, condition Ready removed (answers 25)",
    )


def test_a_pod_that_was_created_again_keeps_the_refusals_of_the_one_before(tmp_path: Path) -> None:
    """Each had a pod group of its own, and the first one was never placed: only State knows of which group it was."""
    text = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 4Gi, pods: 110}}}
steps:
  - {at: 1s, apply: [{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: 8}}}]}}]}
  - {at: 5s, delete: [{kind: Pod, name: a}]}
  - {at: 9s, apply: [{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}]}
until: 20s
"""
    log = tmp_path / "again.db"
    assert muster("simulate", scenario(tmp_path, text), "--log", log).exit_code == 0
    whats = [str(one[1]) for one in told(log, "a")]
    refused = next(at for at, what in enumerate(whats) if what.startswith("refuse "))
    gone = whats.index("pod default/a is gone")
    bound = whats.index("pod default/a is bound to n1")
    assert refused < gone < bound


def test_the_history_of_a_group_has_the_records_of_all_its_pods(log: Path) -> None:
    whats = [one[1] for one in told(log, "PodGroup/ml/train")]
    for i in (1, 2):
        assert f"pod ml/a{i} is bound to n1" in whats
    assert not any("web/other" in str(one) for one in whats)
    # A pod that was never placed is found as well.
    refused = told(log, "web/other")
    assert str(refused[-1][1]).startswith("refuse ")


def test_a_line_has_time_position_and_what_happened(log: Path) -> None:
    result = muster("history", "Node/n1", "--log", log, "--from", "30s", "--to", "40s")
    assert result.stdout.splitlines() == [
        "Node/n1 from 30.000s to 40.000s (positions 37 to 41): 2 events",
        "30.000s  37  node n1: cordoned",
        "40.000s  40  node n1: allocatable nvidia.com/gpu 8 -> 7",
    ]


def test_a_stretch_is_answered_from_a_snapshot_and_its_own_records(
    log: Path, tmp_path: Path
) -> None:
    """With the records before a snapshot torn, a node is still answered behind it: they are not read."""
    copy = tmp_path / "copy.db"
    shutil.copy(log, copy)
    assert muster("log", "snapshot", copy, "--every", "10").exit_code == 0
    expected = told(log, "Node/n1", "--from", "30s")
    assert len(expected) == 4
    with closing(connect(copy)) as connection, connection:
        for (name,) in connection.execute(
            "select name from sqlite_master where type = 'trigger'"
        ).fetchall():
            connection.execute(f"drop trigger {name}")
        connection.execute("update log set body = 'torn' where position between 2 and 20")
    assert told(copy, "Node/n1", "--from", "30s") == expected
    assert muster("history", "Node/n1", "--log", copy, "--from", "10s").exit_code == 4


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("Node/nix",), "knows no Node/nix up to position 46"),
        (("nix",), "knows no Pod/default/nix or PodGroup/default/nix or Node/nix or Queue/nix"),
        (("Card/n1/A100",), "Card/n1/A100: at position 46 node n1 has H200"),
        (("Card/A100",), "the nodes have H200"),
        (("Card/",), "names no card: give Card/MODEL"),
        (("a/b/c/d",), "'a/b/c/d' names nothing"),
        (("Node/n1", "--from", "40s", "--to", "30s"), "comes after --to 39"),
        (("Node/n1", "--since", "47"), "--since 47: "),
        (("Node/n1", "--from", "1s", "--since", "2s"), "exclude each other"),
    ],
)
def test_a_wrong_subject_or_stretch_is_one_line(log: Path, words: Sequence[str], text: str) -> None:
    result = muster("history", *words, "--log", log)
    assert (result.exit_code, text in error_of(result)) == (2, True), result.stderr


def test_a_bundle_of_a_stretch_has_the_same_history(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "late.muster"
    exported = muster("log", "export", log, "--file", bundle, "--from", "30s")
    assert exported.exit_code == 0, exported.output
    for subject in ("Node/n1", "Queue/q1", "Card/n1/H200"):
        assert told(bundle, subject) == told(log, subject, "--from", "37")
    # What the pod was before is not in the bundle: its first line is what is seen of it.
    whats = [one[1] for one in told(bundle, "ml/a1")]
    assert whats[0] == "pod ml/a1 is seen: Succeeded, on n1 (answers 25)"
    assert whats[1:] == [one[1] for one in told(log, "ml/a1", "--from", "37")][1:]


# Filters


def positions(command: Sequence[str | Path], *words: str) -> list[object]:
    """Return the positions that `tell` or `log tail` prints."""
    result = muster(*command, *words, "-o", "json")
    assert result.exit_code == 0, result.output
    return [one["position"] for one in documents(result)]


def test_tell_and_tail_choose_the_same_records(log: Path) -> None:
    cases: dict[tuple[str, ...], list[int]] = {
        ("--kind", "pod_bound"): [26, 27],
        ("--kind", "pod_bound.v1", "--subject", "ml/a2"): [27],
        ("--kind", "decision", "--queue", "q1"): [23, 25],
        ("--kind", "outcome", "--node", "n1"): [26, 27],
        ("--kind", "Queue"): [8, 36],
        ("--kind", "bind", "--kind", "enqueue", "--queue", "q1"): [23, 25],
        ("--node", "n1", "--since", "30s"): [37, 40, 42, 43],
        ("--subject", "Node/n1"): [3, 25, 26, 27, 37, 40],
        ("--subject", "Queue/q1", "--kind", "observations"): [8, 36],
        ("--subject", "ml/a1", "--kind", "decision"): [25],
        ("--queue", "q1", "--node", "n2"): [],
    }
    for words, expected in cases.items():
        assert positions(("tell", log), *words) == expected, words
        if "--since" in words:
            assert positions(("log", "tail", log), *words) == expected
        else:
            assert positions(("log", "tail", log, "-n", "50"), *words) == expected, words
            assert positions(("log", "tail", log, "-n", "1"), *words) == expected[-1:], words


def test_tell_since_is_tell_from(log: Path) -> None:
    assert positions(("tell", log), "--since", "30s") == positions(("tell", log), "--from", "30s")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("tell", "--kind", "nix"), "--kind nix: there is no such kind; give decision"),
        (("log tail", "--subject", "a/b/c/d"), "'a/b/c/d' names nothing"),
        (("log tail", "--subject", "Node/x/n1"), "--subject Node/x/n1: give KIND/NAME"),
        (("tell", "--from", "1s", "--since", "1s"), "exclude each other"),
        (("tell", "--to", "1s", "-f"), "--follow and --to exclude each other"),
    ],
)
def test_a_wrong_filter_is_one_line(log: Path, words: Sequence[str], text: str) -> None:
    command, *rest = words
    result = muster(*command.split(), log, *rest)
    assert (result.exit_code, text in error_of(result)) == (2, True), result.stderr


@pytest.fixture
def growing(log: Path, tmp_path: Path) -> Path:
    """The first half of the log."""
    path = tmp_path / "growing.db"
    first_half(log, path, tmp_path)
    return path


async def test_tell_follows_a_log_that_grows_until_it_is_interrupted(
    log: Path, growing: Path
) -> None:
    """What is appended comes if it passes, and Ctrl-C ends it as any follower."""
    words = ("tell", str(growing), "--since", "26", "--node", "n1")
    assert await followed(log, growing, words, 6, 4) == (
        [26, 27, 29, 30, 31, 32],
        [37, 40, 42, 43],
        (130, "muster: interrupted"),
    )
