"""`muster group list` and `show`: the jobs of pools in their order, with state, slots and reason."""

from pathlib import Path

import pytest

from tests.daemon.cli.builders import documents, error_of, muster, scenario

PODS = """\
policy:
  pools: [{name: default, decider: priority, priorityDirection: lower_first}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}}
  - {kind: Pod, metadata: {name: n, annotations: {muster.sh/priority: "3", muster.sh/preemptible: "false"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}
steps:
  - at: 2s
    apply: [{kind: Pod, metadata: {name: e3, annotations: {muster.sh/priority: "1"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 8}}}]}}]
  - at: 4s
    apply: [{kind: Pod, metadata: {name: e4, annotations: {muster.sh/priority: "2"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}]
  - {at: 6s, delete: [{kind: Pod, name: n}]}
until: 9s
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a running notebook, a job that waits for all of the node, and one that is backfilled and then released."""
    folder = tmp_path_factory.mktemp("jobs")
    path = folder / "jobs.db"
    result = muster("simulate", scenario(folder, PODS), "--log", path)
    assert result.exit_code == 0, result.output
    return path


def jobs(log: Path, *words: str) -> list[dict[str, object]]:
    [answer] = documents(muster("group", "list", "--log", log, "--output", "json", *words))
    found = answer["jobs"]
    assert isinstance(found, list)
    return found


def test_jobs_have_position_slots_and_state(log: Path) -> None:
    found = jobs(log)
    rows = [
        (
            one["position"],
            one["priority"],
            one["slots_acquired"],
            one["slots_needed"],
            one["state"],
            one["code"],
        )
        for one in found
    ]
    assert rows == [
        (0, 1, 0, 8, "queued", "WAITING_FOR_PREEMPTION"),
        (1, 2, 4, 4, "releasing", ""),
    ]  # fmt: skip


def test_a_backfilled_job_says_so_as_long_as_it_runs(log: Path) -> None:
    positions = range(1, 200)
    states = []
    for at in positions:
        result = muster("group", "list", "--log", log, "--output", "json", "--at", str(at))
        if result.exit_code:
            break
        for answer in documents(result):
            listed = answer["jobs"]
            assert isinstance(listed, list)
            states += [one["state"] for one in listed if one["priority"] == 2]
    assert list(dict.fromkeys(states)) == ["queued", "backfilled", "releasing"]


def test_jobs_can_be_asked_for_at_a_time(log: Path) -> None:
    for second, states in ((3, ["queued"]), (5, ["queued", "backfilled"])):
        found = jobs(log, "--at", f"{second}.5s")
        assert [one["state"] for one in found if one["display_name"] != "default/n"] == states
    shown = muster("group", "show", "default/e4", "--log", log, "--at", "00:00:05")
    assert ": backfilled\n" in shown.stdout
    early = muster("group", "show", "default/e4", "--log", log, "--at", "3s")
    assert early.exit_code == 2
    assert "no job 'default/e4' has queued or running tasks" in error_of(early)


def test_a_table_and_one_job_are_printed_for_people(log: Path) -> None:
    listed = muster("group", "list", "--log", log).stdout
    assert listed.startswith("pool default: priority (lower first), 1 node, 2 jobs\n")
    assert "releasing" in listed
    name = jobs(log)[1]["job"]
    assert isinstance(name, str)
    shown = muster("group", "show", name, "--log", log).stdout
    assert "in pool default" in shown
    assert "4 of 4" in shown


def test_a_pod_without_a_pod_group_is_listed_and_shown_by_its_name(log: Path) -> None:
    assert [one["display_name"] for one in jobs(log)] == ["default/e3", "default/e4"]
    assert " default/e4 " in muster("group", "list", "--log", log).stdout
    shown = muster("group", "show", "default/e4", "--log", log).stdout
    assert shown.startswith("default/e4 in pool default")


def test_an_unknown_pool_and_an_unknown_job_are_errors_that_name_them(log: Path) -> None:
    for words, said in (
        (("list", "--pool", "x"), "there is no pool 'x'"),
        (("show", "default/x"), "no job 'default/x'"),
    ):
        result = muster("group", *words, "--log", log)
        assert result.exit_code == 2
        assert said in error_of(result)


def test_options_that_cannot_be_used_or_have_no_effect_are_shown(tmp_path: Path) -> None:
    stated = {
        "muster.sh/priority": "100",
        "muster.sh/weight": "2",
        "muster.sh/max-slots": "9",
    }
    pods = PODS.replace(
        'muster.sh/priority: "3"', ", ".join(f'{k}: "{v}"' for k, v in stated.items())
    )
    path = tmp_path / "options.db"
    text = pods.partition("  - {at: 6s")[0] + "until: 5s\n"
    result = muster("simulate", scenario(tmp_path, text), "--log", path)
    assert result.exit_code == 0, result.output
    [job] = [one for one in jobs(path) if one["priority"] == 42]
    assert job["problems"] == [
        "muster.sh/weight has no effect in pool default: its decider priority uses muster.sh/priority,"
        " muster.sh/max-slots, muster.sh/queue-position",
        "muster.sh/priority: '100' is not a whole number from 1 to 99: it counts for nothing",
        "max-slots 9 is above the 8 slots of pool default",
    ]  # fmt: skip
    shown = muster("group", "show", str(job["job"]), "--log", path).stdout
    assert "\n  note       max-slots 9 is above the 8 slots of pool default\n" in shown


def test_a_job_names_what_states_its_priority(tmp_path: Path) -> None:
    path = tmp_path / "class.db"
    text = """\
policy:
  pools: [{name: default, decider: priority}]
cluster:
  - {kind: PriorityClass, metadata: {name: medium}, value: 50}
  - {kind: Pod, metadata: {name: k, annotations: {muster.sh/priority: "42"}}, spec: {priorityClassName: medium, priority: 50, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}
  - {kind: Pod, metadata: {name: a, annotations: {muster.sh/priority: "45"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}
  - {kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}
until: 2s
"""
    assert muster("simulate", scenario(tmp_path, text), "--log", path).exit_code == 0
    shown = {
        name: muster("group", "show", f"default/{name}", "--log", path).stdout for name in "kad"
    }
    assert "  priority   50 (PriorityClass medium of pod default/k)\n" in shown["k"]
    assert (
        "  note       muster.sh/priority 42 does not count: PriorityClass medium of pod default/k stands before it\n"
        in shown["k"]
    )
    assert "  priority   45 (muster.sh/priority)\n" in shown["a"]
    assert "  priority   50 (default of pool default)\n" in shown["d"]
    assert "note" not in shown["a"] + shown["d"]
