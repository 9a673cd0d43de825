"""Incidents: faults of one cause are one, and every job that they hit is followed until it runs again or is given up."""

import os
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from daemon.log.entry import Entry
from events.codec import event_of
from events.errors import UsageError
from features.table import FEATURES
from projections.state import State
from replay.incident_answer import IncidentReport
from replay.incident_faults import card_thousandths
from replay.incident_selection import Selection, parse_fault, parse_pod_group
from replay.incidents import Incidents
from replay.log_time import parse_log_time
from tests.builders import recorded
from tests.checkout import ROOT
from tests.daemon.cli.builders import muster
from tests.structure import lines_of

FOLDER = Path(__file__).parent / "incidents"
NODE_FAULT = ROOT / "docs" / "examples" / "node_fault.yaml"
SCENARIOS = [NODE_FAULT, *sorted(FOLDER.glob("*.yaml"))]


def body(path: Path) -> str:
    """Return a scenario without its title."""
    text = path.read_text(encoding="utf-8")
    return text[text.index("policy:") :]


async def log_of(name: str) -> list[Entry]:
    """Return the log of a scenario of the folder."""
    return await recorded(body(FOLDER / f"{name}.yaml"))


def found(entries: list[Entry], selection: Selection | None = None) -> list[IncidentReport]:
    """Return the incidents of a log; all of them in full, unless something is asked for."""
    incidents = Incidents(selection or Selection(moment=None, pod_group=""))
    for entry in entries:
        if not incidents.take(entry.record, entry.content):
            break
    return incidents.answer()


def about(entries: list[Entry], node: str) -> IncidentReport:
    """Return the one incident of a node."""
    (one,) = found(entries, Selection(node=node))
    return one


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_incidents_of_a_log_equal_the_golden_file(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "incidents.db"
    assert muster("simulate", path, "--log", log).exit_code == 0
    listed = muster("incident", log)
    assert listed.exit_code == 0
    names = [line.split()[0] for line in listed.stdout.splitlines()[2:]]
    shown = [muster("incident", log, "--fault", name).stdout for name in names]
    text = "\n".join([listed.stdout, *shown]).replace(str(log), "LOG")
    golden = FOLDER / f"{path.stem}.txt"
    if os.environ.get("RETELL") and not os.environ.get("CI"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


async def test_a_pod_that_moves_keeps_its_rank_and_the_others_stay() -> None:
    (one,) = found(
        await log_of("the_pod_of_an_unhealthy_chip_moves"), Selection(place="n3/Ascend910-3")
    )
    (restart,) = one.restarts
    assert [
        (move.rank, move.from_node, move.to_node, move.was_deleted) for move in restart.moves
    ] == [
        (0, "n1", "n1", False),
        (1, "n2", "n2", False),
        (2, "n3", "n5", True),
        (3, "n4", "n4", False),
    ]
    assert (restart.evicted, restart.evicted_healthy, restart.forced) == (1, 0, 0)
    assert one.summary.is_over


async def test_lost_card_hours_are_the_cards_of_the_gang_from_the_first_lost_pod_until_all_run() -> (
    None
):
    entries = await recorded(body(NODE_FAULT))
    _, second = found(entries, Selection(node="n2"))
    (restart,) = second.restarts
    assert restart.cards == {"nvidia.com/gpu": 24}
    assert restart.seconds_to_decision == 10
    assert restart.seconds_to_running == 41
    assert restart.lost_card_seconds == 24 * 41
    assert restart.healthy_card_seconds == 2 * 8 * (41 - 10)
    assert (restart.evicted, restart.forced) == (3, 1)


def test_shared_cards_count_in_thousandths() -> None:
    assert card_thousandths({"H200": 2, "T4/milli": 250}) == 2250


async def test_an_escalation_belongs_to_the_restart_that_it_widens() -> None:
    one = about(await log_of("without_a_spare_node_the_whole_job_is_restarted_after_its_pod"), "n3")
    (restart,) = one.restarts
    assert [(each.scope, each.is_escalation) for each in restart.decisions] == [
        ("pod", False),
        ("job", True),
    ]
    assert [wait.code for wait in restart.waits] == ["NotEnoughResources"] * 2
    assert [wait.seconds for wait in restart.waits] == [12, 16]


async def test_all_jobs_of_a_node_are_in_its_incident() -> None:
    one = about(await log_of("one_node_hits_two_jobs"), "n1")
    assert [restart.pod_group for restart in one.restarts] == ["default/left", "default/right"]
    assert one.summary.pods_hit == 2
    assert [hit.pod for hit in one.pods] == ["default/left-0", "default/right-0"]


async def test_nodes_under_one_leaf_switch_are_one_cause_and_others_are_not() -> None:
    entries = await log_of("nodes_under_one_leaf_switch_stop_together")
    assert about(entries, "a-1").summary.nodes == ("a-1", "a-2")
    assert about(entries, "b-1").summary.nodes == ("b-1",)


async def test_a_second_restart_before_the_job_ran_is_a_restart_of_its_own() -> None:
    one = about(await log_of("nodes_under_one_leaf_switch_stop_together"), "a-2")
    assert [restart.outcome for restart in one.restarts] == ["Restarted", "Restarted"]


REASONS = {
    "ModeOff": ('{mode: "off"}', ""),
    "Tolerated": ("{mode: grace, tolerance: 60s}", ""),
    "OtherController": ("{mode: grace}", "elastic-scheduling: 'on'"),
    "RestartLimit": ("{mode: force, restartsPerHour: 1}", ""),
}

STOPS = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations: [{name: reschedule, arguments: ARGUMENTS}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {cpu: 8}, conditions: [{type: Ready, status: "True"}]}
    count: 3
  - {kind: PodGroup, metadata: {name: web}, spec: {minMember: 1}}
steps:
  - at: 1s
    apply:
      - apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: web}
        spec:
          replicas: 1
          template:
            metadata: {labels: {LABELS}, annotations: {scheduling.k8s.io/group-name: web}}
            spec: {schedulerName: muster, containers: [{name: main, resources: {requests: {cpu: 8}}}]}
  - at: 10s
    patch: [{kind: Node, name: n1, merge: {status: {conditions: [{type: Ready, status: "False"}]}}}]
  - at: 30s
    patch: [{kind: Node, name: n2, merge: {status: {conditions: [{type: Ready, status: "False"}]}}}]
until: 40s
"""


@pytest.mark.parametrize("code", REASONS)
async def test_the_reason_why_nothing_is_done_is_named(code: str) -> None:
    arguments, labels = REASONS[code]
    text = STOPS.replace("ARGUMENTS", arguments).replace("LABELS", labels)
    entries = await recorded(text)
    reports = found(entries, Selection(pod_group="default/web"))
    codes = [reason.code for one in reports for reason in one.not_moved]
    assert codes == [code]


POD_FAULTS = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations: [{name: reschedule, arguments: {mode: grace, retryTimes: 1}}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {cpu: 8}, conditions: [{type: Ready, status: "True"}]}
    count: 2
  - {kind: PodGroup, metadata: {name: g, labels: {fault-scheduling: grace}}, spec: {minMember: 2}}
  - kind: Pod
    metadata: {name: "g-{i}", annotations: {scheduling.k8s.io/group-name: g}}
    spec: {containers: [{resources: {requests: {cpu: 8}}}]}
    count: 2
steps:
  - {at: 5s, fail: [{pod: default/g-1, exit_code: 1}, {pod: default/g-2, exit_code: 1}]}
until: 20s
"""


async def test_pods_of_one_job_that_fail_together_are_one_incident() -> None:
    entries = await recorded(POD_FAULTS)
    (one,) = found(entries, Selection(pod_group="default/g"))
    assert [(fault.pod, fault.source) for fault in one.faults] == [
        ("default/g-1", "pod"),
        ("default/g-2", "pod"),
    ]
    assert one.summary.restarted == ("default/g",)


STRANDED = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations: [{name: reschedule, arguments: {mode: grace, strandedTimeout: 30s}}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8}}}
  - {kind: PodGroup, metadata: {name: g, labels: {fault-scheduling: grace}}, spec: {minMember: 2}}
  - kind: Pod
    metadata: {name: "g-{i}", annotations: {scheduling.k8s.io/group-name: g}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    count: 2
steps:
  - {at: 5s, delete: [{kind: Pod, namespace: default, name: g-1}]}
until: 60s
"""


async def test_a_gang_that_lost_pods_to_other_hands_is_an_incident_named_by_its_pod_group() -> None:
    entries = await recorded(STRANDED)
    (one,) = found(entries, Selection(pod_group="default/g"))
    assert one.faults == ()
    assert one.summary.name == f"default/g@{one.restarts[0].position}"
    assert [each.code for each in one.restarts[0].decisions] == ["Stranded"]
    assert found(entries, parse_fault(one.summary.name)) == [one]


async def test_a_fault_is_found_by_its_name_by_its_node_and_by_its_moment() -> None:
    entries = await recorded(body(NODE_FAULT))
    names = [one.summary.name for one in found(entries)]
    assert len(names) == 2
    first, second = names
    assert [one.summary.name for one in found(entries, parse_fault(second))] == [second]
    assert [one.summary.name for one in found(entries, parse_fault("n2"))] == names
    for moment, expected in (("10s", [first]), ("15s", []), ("20s", []), ("120s", [second])):
        selection = Selection(moment=parse_log_time(moment))
        assert [one.summary.name for one in found(entries, selection)] == expected, moment
    assert found(entries, Selection(node="n1")) == []


def _took(incidents: Incidents, entry: Entry) -> bool:
    return incidents.take(entry.record, entry.content)


async def test_no_more_records_are_read_than_the_answer_needs() -> None:
    entries = await recorded(body(NODE_FAULT))
    for selection, last in (
        (Selection(moment=parse_log_time("12s")), 75),
        (parse_fault("n2@44"), 75),
    ):
        took = partial(_took, Incidents(selection))
        read = list(takewhile(took, entries))
        assert read[-1].record.recorded_at_ns <= last * 1_000_000_000


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(node="n9"), "node 'n9' is not in the log"),
        (
            Selection(pod_group="default/tra"),
            "pod group 'default/tra' is not in the log; there is default/train",
        ),
        (Selection(place="n9/x", position=3), "node 'n9' of the fault is not in the log"),
        (Selection(moment=parse_log_time("9999")), "--at 9999 is after the end of the log"),
        (Selection(place="n2", position=9999), "is after the end of the log"),
    ],
)
async def test_what_the_log_does_not_have_is_an_error(selection: Selection, message: str) -> None:
    entries = await recorded(body(NODE_FAULT))
    with pytest.raises(UsageError, match=message):
        found(entries, selection)


@pytest.mark.parametrize("text", ["", "@5", "n2@", "n2@x"])
def test_a_fault_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="--fault"):
        parse_fault(text)


@pytest.mark.parametrize("text", ["", "/", "a/b/c"])
def test_a_pod_group_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="--pod-group"):
        parse_pod_group(text)


async def test_following_incidents_leaves_state_as_a_plain_fold_has_it() -> None:
    entries = await log_of("one_node_hits_two_jobs")
    incidents, plain = Incidents(), State(FEATURES)
    for entry in entries:
        incidents.take(entry.record, entry.content)
        plain.apply(entry.record, event_of(entry.record), entry.content)
        plain.settle()
    incidents.answer()
    plain.cluster.clear_changed_rows()
    incidents.state.cluster.clear_changed_rows()
    assert list(lines_of(incidents.state)) == list(lines_of(plain))
