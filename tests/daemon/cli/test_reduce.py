"""`muster reduce`: a log becomes a small scenario that shows the same."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest
from msgspec import structs

from daemon.cli.inputs import load_scenario
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.simulation import simulate
from events.decision import Decision, Placement
from events.decisions.enqueue import EnqueueDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.record import Record
from projections.pod_groups import PodGroup
from projections.scheduling_queue import EquivalenceGroup
from scheduling.plugins.binpack import BinPack
from scheduling.single_pods import SinglePods
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, logged, muster, scenario
from tests.planted import altered, store

OPENB = "workload: {name: openb, scale: 0.05}\nuntil: 130s\n"
CROWD = """
    - kind: Node
      metadata: {name: "n{i}"}
      status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110, nvidia.com/gpu: 8}}
      count: 40
    - kind: Pod
      metadata: {name: "other-{i}", namespace: others}
      spec: {containers: [{resources: {requests: {cpu: 1}}}]}
      count: 60
"""
CARDS = """
policy: {actions: "enqueue, allocate, backfill", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]}
"""
Alter = Callable[[Record, Decision], Decision | None]


def crowded(rest: str, policy: str = CARDS) -> str:
    """A scenario with many nodes and pods that play no part."""
    return policy + "cluster:" + CROWD + indent(dedent(rest), "    ")


def planted(folder: Path, text: str, alter: Alter) -> tuple[Path, int]:
    """A log with an altered decision, and the position of it."""
    loaded = load_scenario(scenario(folder, text))

    async def write() -> int:
        log = MemoryLog()
        await simulate(loaded.scenario, log, with_views=False)
        entries = [one async for some in log.read() for one in some]
        changed, position = altered(entries, alter)
        database = await open_log(str(folder / "planted.db"), "write")
        await store(changed, database)
        await database.close()
        return position

    return folder / "planted.db", asyncio.run(write())


def on_another_node(pod: str, node: str) -> Alter:
    """Alter the binding of a pod."""

    def alter(_record: Record, event: Decision) -> Decision | None:
        if not isinstance(event, GangBindDecided):
            return None
        moved = tuple(
            structs.replace(one, node=node) if one.pod == pod else one for one in event.placements
        )
        return None if moved == event.placements else structs.replace(event, placements=moved)

    return alter


def reduced(log: Path, *words: str, folder: Path) -> tuple[Path, dict[str, object]]:
    """The scenario in a file, and what the command says of it."""
    out = folder / "reduced.yaml"
    result = muster("reduce", log, *words, "--out", out, "--force", "-o", "json")
    assert result.exit_code == 0, result.output
    (document,) = documents(result)
    assert document["scenario"] == out.read_text()
    return out, document


def objects_of(document: dict[str, object]) -> list[str]:
    found = document["objects"]
    assert isinstance(found, list)
    return found


def test_a_planted_divergence_is_shown_by_few_objects(tmp_path: Path) -> None:
    log, position = planted(
        tmp_path, OPENB, on_another_node("default/openb-pod-0200", "openb-node-0003")
    )
    out, document = reduced(log, folder=tmp_path)
    assert document["position"] == position
    assert document["is_complete"] is True
    assert int(str(document["before"])) > 200
    assert len(objects_of(document)) < 20
    assert {"Pod/default/openb-pod-0200", "Node//openb-node-0003"} <= set(objects_of(document))
    assert "decided now: kind bind, pod default/openb-pod-0200, node " in out.read_text()
    simulated = muster("simulate", out)
    assert simulated.exit_code == 1
    assert (
        'expected {"kind":"bind","pod":"default/openb-pod-0200","node":"openb-node-0003"}'
        in simulated.stdout
    )


def test_divergences_of_released_versions_are_shown_by_one_object() -> None:
    for name, expected in (("names", "code: QueueNotFound"), ("sla_short", None)):
        result = muster("reduce", ROOT / f"tests/histories/attacked/{name}.muster", "-o", "json")
        assert result.exit_code == 0, result.output
        (document,) = documents(result)
        assert document["after"] == 1
        text = str(document["scenario"])
        assert "The cycle was recorded by decider version 3." in text
        assert expected is None or expected in text
        assert ("expect:" in text) is (expected is not None)


def test_what_a_broken_plugin_decided_is_expected_and_decided_by_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken.db"
    with monkeypatch.context() as broken:
        broken.setattr(BinPack, "scorer", lambda _self, _pod_class: None)
        assert muster("simulate", scenario(tmp_path, OPENB), "--log", path).exit_code == 0
    assert muster("replay", path).exit_code == 1
    out, document = reduced(path, folder=tmp_path)
    assert len(objects_of(document)) < 20
    assert muster("simulate", out).exit_code == 1
    with monkeypatch.context() as broken:
        broken.setattr(BinPack, "scorer", lambda _self, _pod_class: None)
        assert muster("simulate", out).exit_code == 0, out.read_text()


def test_another_policy_diverges_as_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "openb.db"
    assert muster("simulate", scenario(tmp_path, OPENB), "--log", path).exit_code == 0
    result = muster("reduce", path)
    assert (result.exit_code, "nothing there shows `divergence`" in error_of(result)) == (1, True)
    spread = str(ROOT / "docs/examples/spread.yaml")
    (replayed,) = documents(muster("replay", path, "--policy", spread, "-o", "json"))
    out, document = reduced(path, "--policy", spread, folder=tmp_path)
    divergence = replayed["divergence"]
    assert isinstance(divergence, dict)
    assert document["position"] == divergence["position"]
    assert len(objects_of(document)) < 20
    assert "policy:" in out.read_text()
    assert muster("simulate", out).exit_code == 1


EVICTION = """
policy:
  actions: "enqueue, allocate, preempt"
  tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}, {name: capacity}]}]
cluster:
    - {kind: PriorityClass, metadata: {name: high}, value: 1000}
    - {kind: Node, metadata: {name: "n{i}"}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}, count: 6}
    - {kind: PodGroup, metadata: {name: low}, spec: {minMember: 1}}
    - kind: Pod
      metadata: {name: "low-{i}", annotations: {scheduling.k8s.io/group-name: low}}
      spec: {containers: [{resources: {requests: {cpu: 1}}}]}
      count: 24
steps:
    - at: 3s
      apply:
        - {kind: PodGroup, metadata: {name: urgent}, spec: {minMember: 1, priorityClassName: high}}
        - kind: Pod
          metadata: {name: urgent, annotations: {scheduling.k8s.io/group-name: urgent}}
          spec: {priorityClassName: high, containers: [{resources: {requests: {cpu: 2}}}]}
"""


def test_an_eviction_is_shown_by_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "evicted.db"
    assert muster("simulate", scenario(tmp_path, EVICTION), "--log", path).exit_code == 0
    condition = "decision kind=evict in_favour_of=urgent"
    out, document = reduced(path, "--keep", condition, folder=tmp_path)
    assert document["condition"] == condition
    kinds = [one.partition("/")[0] for one in objects_of(document)]
    assert kinds.count("Node") == 1
    assert 2 <= kinds.count("Pod") <= 4
    assert "metadata: {name: urgent" in out.read_text()
    assert muster("simulate", out).exit_code == 0


def test_a_gang_that_waits_is_shown_with_fewer_members(tmp_path: Path) -> None:
    gang = """
    - {kind: PodGroup, metadata: {name: gang, namespace: ml}, spec: {minMember: 50}}
    - kind: Pod
      metadata: {name: "gang-{i}", namespace: ml, annotations: {scheduling.k8s.io/group-name: gang}}
      spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}
      count: 50
    """
    path = tmp_path / "gang.db"
    assert muster("simulate", scenario(tmp_path, crowded(gang)), "--log", path).exit_code == 0
    out, document = reduced(path, "--keep", "pending pod_group=ml/gang", folder=tmp_path)
    assert int(str(document["before"])) == 151
    assert len(objects_of(document)) <= 4
    assert "PodGroup/ml/gang" in objects_of(document)
    simulated = muster("simulate", out, "-o", "json")
    assert simulated.exit_code == 0
    (result,) = documents(simulated)
    assert json.dumps(result["pod_groups"]).count("NotEnoughResources") == 1


def test_an_exception_is_shown_by_what_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SinglePods.placement

    def bug(self: SinglePods, equal: EquivalenceGroup, group: PodGroup) -> Placement | None:
        if group.key == "ml/bad":
            raise ZeroDivisionError
        return real(self, equal, group)

    monkeypatch.setattr(SinglePods, "placement", bug)
    bad = """
    - {kind: PodGroup, metadata: {name: bad, namespace: ml}, spec: {minMember: 1}}
    - kind: Pod
      metadata: {name: bad, namespace: ml, annotations: {scheduling.k8s.io/group-name: bad}}
      spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    """
    path = tmp_path / "bad.db"
    text = crowded(bad) + "until: 3s\n"
    assert muster("simulate", scenario(tmp_path, text), "--log", path).exit_code == 0
    out, document = reduced(path, "--keep", "error", folder=tmp_path)
    assert set(objects_of(document)) >= {"Pod/ml/bad"}
    assert len(objects_of(document)) <= 3
    assert muster("simulate", out).exit_code == 0
    assert "code: InternalError" in out.read_text()


TWO = """
    - {kind: PodGroup, metadata: {name: pair}, spec: {minMember: 2}}
    - kind: Pod
      metadata: {name: "pair-{i}", annotations: {scheduling.k8s.io/group-name: pair}}
      spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4}}}]}
      count: 2
"""


def refused(_record: Record, event: Decision) -> Decision | None:
    """A refusal in place of a binding."""
    if not isinstance(event, GangBindDecided) or event.pod_group != "default/pair":
        return None
    return PodGroupUnschedulable(
        pod_group=event.pod_group, queue=event.queue, action="allocate", code="Odd", message="odd"
    )


def enqueued_twice(_record: Record, event: Decision) -> Decision | None:
    """An admission of the pair in place of that of another group, which is then not recorded."""
    if not isinstance(event, EnqueueDecided) or event.pod_group == "default/pair":
        return None
    return structs.replace(event, pod_group="default/pair")


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        (refused, "{kind: refuse, pod_group: default/pair, code: Odd}"),
        (on_another_node("default/pair-2", "n33"), "{kind: bind, pod: default/pair-2, node: n33}"),
    ],
    ids=["another kind", "another node of a gang"],
)
def test_every_difference_is_stated_as_what_was_recorded(
    tmp_path: Path, alter: Alter, expected: str
) -> None:
    log, position = planted(tmp_path, crowded(TWO), alter)
    out, document = reduced(log, folder=tmp_path)
    assert document["position"] == position
    assert len(objects_of(document)) < 20
    assert f"- {expected}" in out.read_text()
    assert muster("simulate", out).exit_code == 1


def test_a_decision_that_is_not_recorded_is_stated_as_it_is_made(tmp_path: Path) -> None:
    log, position = planted(tmp_path, crowded(TWO), enqueued_twice)
    out, document = reduced(log, folder=tmp_path)
    assert document["position"] == position
    assert len(objects_of(document)) == 1
    assert "# recorded: nothing" in out.read_text()
    assert "- {kind: enqueue, pod_group: others/" in out.read_text()
    assert muster("simulate", out).exit_code == 0


def test_a_divergence_can_be_chosen_by_its_fields(tmp_path: Path) -> None:
    log, position = planted(tmp_path, crowded(TWO), on_another_node("default/pair-2", "n33"))
    _, document = reduced(log, "--keep", "divergence pod=pair-2 node=n33", folder=tmp_path)
    assert document["position"] == position
    result = muster("reduce", log, "--keep", "divergence kind=evict")
    assert result.exit_code == 1
    assert error_of(result).endswith("nothing there shows `divergence kind=evict`")


def test_pinned_objects_stay(tmp_path: Path) -> None:
    log, _ = planted(tmp_path, crowded(TWO), on_another_node("default/pair-2", "n33"))
    words = ("--pin", "Node/n7", "--pin", "Pod/others/other-5")
    _, document = reduced(log, *words, folder=tmp_path)
    assert {"Node//n7", "Pod/others/other-5"} <= set(objects_of(document))


def test_the_smallest_scenario_so_far_is_printed_at_the_time_limit(tmp_path: Path) -> None:
    log, _ = planted(tmp_path, crowded(TWO), on_another_node("default/pair-2", "n33"))
    result = muster("reduce", log, "--time-limit", "0s")
    assert result.exit_code == 0
    assert "# The time limit ended the search: fewer may do." in result.stdout
    assert "the time limit ended the search" in result.stderr
    path = tmp_path / "limited.yaml"
    path.write_text(result.stdout)
    assert muster("simulate", path).exit_code == 1


def test_long_annotations_are_printed_whole(tmp_path: Path) -> None:
    long = TWO.replace("annotations: {", "annotations: {long: " + "x" * 9_000 + ", ")
    log, _ = planted(tmp_path, crowded(long), on_another_node("default/pair-2", "n33"))
    result = muster("reduce", log, "--time-limit", "0s")
    assert "x" * 9_000 in result.stdout
    path = tmp_path / "long.yaml"
    path.write_text(result.stdout)
    assert muster("simulate", path).exit_code == 1


def test_the_same_log_gives_the_same_scenario(tmp_path: Path) -> None:
    log, _ = planted(tmp_path, crowded(TWO), on_another_node("default/pair-2", "n33"))
    assert muster("reduce", log).stdout == muster("reduce", log).stdout


WITHDRAWN = """
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {cpu: 1, memory: 8Gi, pods: 110}}
    count: 12
  - kind: Pod
    metadata: {name: "old-{i}", annotations: {muster.sh/stop-seconds: "30"}}
    spec: {nodeName: "n{i}", containers: [{resources: {requests: {cpu: 1}}}]}
    status: {phase: Running}
    count: 12
steps:
  - {at: 1s, delete: [{kind: Pod, name: old-7}]}
  - at: 2s
    apply:
      - kind: Pod
        metadata: {name: waits}
        spec: {containers: [{resources: {requests: {cpu: 1}}}]}
  - {at: 4s, patch: [{kind: Node, name: n3, merge: {metadata: {labels: {zone: a}}}}]}
  - {at: 5s, delete: [{kind: Pod, name: old-2}]}
  - {at: 8s, fail: [{pod: default/old-9, exit_code: 1}]}
until: 40s
"""


def test_a_binding_that_follows_from_a_nomination_is_shown_by_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "nominated.db"
    name = "topology/a_gang_is_nominated_in_the_domain_that_is_being_freed.yaml"
    assert muster("simulate", ROOT / "tests/scenarios" / name, "--log", path).exit_code == 0
    out, document = reduced(path, "--keep", "decision kind=bind pod=g-2 node=a1", folder=tmp_path)
    assert document["reduced"] == "changes"
    assert int(str(document["after"])) < int(str(document["before"]))
    assert "steps:" in out.read_text()
    assert muster("simulate", out).exit_code == 0


def test_what_one_cycle_does_not_show_is_shown_by_a_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.queries.reduce._first_shown", lambda *_: None)
    path = tmp_path / "withdrawn.db"
    assert muster("simulate", scenario(tmp_path, WITHDRAWN), "--log", path).exit_code == 0
    out, document = reduced(path, "--keep", "decision kind=bind pod=waits", folder=tmp_path)
    assert document["reduced"] == "changes"
    assert int(str(document["before"])) > 25
    assert set(objects_of(document)) <= {"Node//n9", "Pod/default/waits"}
    assert "- at: 2s" in out.read_text()
    assert muster("simulate", out).exit_code == 0
    condition = "decision kind=pipeline pod=waits node=n7"
    out, document = reduced(path, "--keep", condition, folder=tmp_path)
    assert objects_of(document) == ["Node//n7", "Pod/default/old-7", "Pod/default/waits"]
    assert "delete:" in out.read_text()
    assert muster("simulate", out).exit_code == 0


def test_an_eviction_is_shown_by_a_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.queries.reduce._first_shown", lambda *_: None)
    path = tmp_path / "evicted.db"
    assert muster("simulate", scenario(tmp_path, EVICTION), "--log", path).exit_code == 0
    condition = "decision kind=bind pod=urgent"
    out, document = reduced(path, "--keep", condition, folder=tmp_path)
    assert document["reduced"] == "changes"
    assert {"Pod/default/urgent"} <= set(objects_of(document))
    assert muster("simulate", out).exit_code == 0


def test_what_neither_shows_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.queries.reduce._first_shown", lambda *_: None)
    monkeypatch.setattr("daemon.queries.reduce._timelines", lambda *_: [()])
    path = logged(tmp_path)
    result = muster("reduce", path, "--keep", "decision kind=bind")
    assert result.exit_code == 1
    assert "but neither by a cycle over the" in error_of(result)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "pendig"], "'pendig' is not known; known are divergence, decision, pending"),
        (["--keep", "decision"], "decision needs at least one KEY=VALUE"),
        (["--keep", "decision kind"], "'kind' is not KEY=VALUE"),
        (["--keep", "decision kind=move"], "kind 'move' is not known; known are bind, enqueue"),
        (["--keep", "pending node=n1"], "pending has no key 'node'; known are pod_group, queue"),
        (["--keep", "decision pod=a pod=b"], "pod is given twice"),
        (["--keep", "decision message='a"], "quote a value with spaces as in a shell"),
        (["--time-limit", "soon"], "--time-limit: 'soon' is not a time"),
        (["--pin", "n1"], "--pin n1: an object is named as Node/n1 or Pod/ml/a-0"),
        (["--from", "9", "--to", "3"], "--from 9 comes after --to 3"),
        (["--to", "99999999"], "--to 99999999: "),
        (
            ["--keep", "decision kind=bind", "--pin", "Node/absent"],
            "--pin Node/absent: there is no such object",
        ),
        (["--out", "absent/reduced.yaml"], "absent/reduced.yaml: there is no folder absent"),
        (["--out", "."], "is there already; --force replaces it"),
    ],
)
def test_bad_input_is_named_in_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    result = muster("reduce", logged(tmp_path), *words)
    assert result.exit_code == 2, result.output
    assert said in error_of(result)


@pytest.mark.soak
def test_a_log_of_100_000_records_becomes_few_objects_within_five_minutes(tmp_path: Path) -> None:
    large = "workload: {name: openb, scale: 3}\nuntil: 130s\n"
    alter = on_another_node("default/openb-pod-18631", "openb-node-0003")
    log, position = planted(tmp_path, large, alter)
    assert position > 100_000
    _, document = reduced(log, folder=tmp_path)
    assert document["position"] == position
    assert int(str(document["before"])) > 10_000
    assert len(objects_of(document)) < 20
    assert document["is_complete"] is True
    assert float(str(document["elapsed_seconds"])) < 300
