"""Scenarios are read as they are written, or refused with file, line and reason."""

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.errors import DocumentError, UsageError
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from simulator.scenario import (
    Apply,
    Delete,
    Fail,
    Patch,
    Scenario,
    TraceSource,
    WorkloadSource,
    parse_scenario,
)
from tests.simulator.builders import SECOND, scenario

POD = "{kind: Pod, metadata: {name: a}}"


def test_every_part_of_the_format_is_read() -> None:
    read = scenario(
        """\
        policy: {actions: "enqueue, allocate"}
        period: 500ms
        start_delay: 2s
        until: 1m
        cluster:
          - {apiVersion: v1, kind: Node, metadata: {name: "n{i}", labels: {rack: "r{i}", on: yes}}, count: 2}
          - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: n1}}
        steps:
          - {at: 1s, apply: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}
          - {at: 5s, delete: [{kind: Pod, namespace: default, name: a}]}
          - {at: 9s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}
          - {at: 12s, fail: [{pod: default/b, exit_code: 3}]}
        expect: {expected: true}
        """
    )
    assert (read.name, read.period_ns, read.start_delay_ns) == ("a test", SECOND // 2, 2 * SECOND)
    assert (read.until_ns, read.policy) == (60 * SECOND, {"actions": "enqueue, allocate"})
    assert [placed.name for placed in read.cluster] == ["n1", "n2", "a"]
    labels = section(read.cluster[1].manifest, "metadata", "labels")
    assert labels == {"rack": "r2", "on": "yes"}
    assert [type(step) for step in read.steps] == [Apply, Delete, Patch, Fail]
    assert [step.at_ns // SECOND for step in read.steps] == [1, 5, 9, 12]
    assert read.expect == {"expected": True}


def test_what_is_not_said_has_its_default() -> None:
    read = scenario("cluster: []")
    assert (read.period_ns, read.start_delay_ns, read.until_ns, read.cycles) == (
        *(SECOND, 0, None, None),
    )
    assert read.expect is None


def test_a_trace_and_a_workload_are_only_named() -> None:
    assert scenario("trace: {format: openb, nodes: n.csv, pods: p.csv}").trace == TraceSource(
        format="openb", nodes="n.csv", pods="p.csv"
    )
    workload = scenario("workload: {name: openb, seed: 7, scale: 0.25}").workload
    assert workload is not None
    assert (workload.seed, workload.scale_percent) == (7, 25)
    assert scenario("workload: openb").workload is not None
    workload = scenario("workload: {name: spot-gpu, load: 1.5, window: 2h}").workload
    assert workload is not None
    assert (workload.load_percent, workload.window_ns) == (150, 7200 * SECOND)
    assert scenario("workload: spot-gpu").workload == WorkloadSource(
        "spot-gpu", window_ns=86_400 * SECOND
    )


BROKEN = [
    ("colour: red", 2, "a scenario has no key 'colour'"),
    ("steps:\n- {at: 1s, fail: [{pod: a, code: 3}]}", 3, "fail has no key 'code'"),
    ("steps:\n- {at: 1s, delete: [{kind: Pod, nme: a}]}", 3, "delete has no key 'nme'"),
    ("steps:\n- at: 1s\n  patch: [{kind: Pod, with: {}}]", 4, "patch has no key 'with'"),
    ("trace:\n  formt: openb", 3, "trace has no key 'formt'"),
    ("workload:\n  name: openb\n  sede: 3", 4, "workload has no key 'sede'"),
    ("expect:\n  decisons: []", 3, "expect has no key 'decisons'"),
    ("period: 0s", 2, "period must be longer than nothing"),
    ("period: soon", 2, "period: 'soon' is not a time"),
    ("period: [1s]", 2, "period must be a single value"),
    ("until: -3s", 2, "'-3s' is a negative time"),
    ("until: 1e99h", 2, "is not a time"),
    ("until: 99999999h", 2, "longer than a thousand years"),
    ("cycles: 0", 2, "cycles must be a whole number of at least 1"),
    ("policy: [1]", 2, "policy must be a mapping"),
    ("policy: {}\npolicy_file: p.yaml", 3, "policy_file cannot stand beside policy"),
    ("cluster: {}", 2, "cluster must be a list"),
    ("period: 1s\nperiod: 2s", 3, "period stands twice"),
    ("cluster:\n- {kind: Pod}", 3, "a Pod without metadata.name"),
    ("cluster:\n- {kind: Pod, metadata: {}}", 3, "a Pod without metadata.name"),
    ("cluster:\n- {kind: Pod, metadata: {name: 1}}", 3, "metadata.name must be a text"),
    ("cluster:\n- {kind: Pod, metadata: {name: [a]}}", 3, "metadata.name must be a text"),
    ("cluster:\n- {metadata: {name: a}}", 3, "a manifest must name its kind"),
    ("cluster:\n- {kind: Secret, metadata: {name: a}}", 3, "does not read objects of kind Secret"),
    (
        "cluster:\n- {kind: Job, apiVersion: x/v1, metadata: {name: a}}",
        3,
        "does not read objects of kind x/v1 Job",
    ),
    (f"cluster:\n- {POD}\n- {POD}", 4, "Pod default/a is there already, from line 3"),
    ("cluster:\n- {kind: Node, metadata: {name: n}, count: 2}", 3, "Node n is there already"),
    ("cluster:\n- {kind: Node, metadata: {name: n}, count: -1}", 3, "count must be a whole number"),
    (
        "cluster:\n- kind: Node\n  metadata: {name: n}\n  status:\n    allocatable:\n      cpu: 1.5x",
        7,
        "allocatable.cpu: '1.5x' is not a quantity",
    ),
    (
        "cluster:\n- kind: Pod\n  metadata: {name: n}\n  spec: {containers: [{resources: {limits: {cpu: -1}}}]}",
        5,
        "limits.cpu: -1 is negative",
    ),
    (
        "cluster:\n- {kind: Job, metadata: {name: a}, spec: {parallelism: many}}",
        3,
        "parallelism must be a whole number of at least 0",
    ),
    (
        'cluster:\n- {kind: Pod, metadata: {name: a, annotations: {muster.sh/run-seconds: "soon"}}}',
        3,
        "'soon' is not a number of seconds",
    ),
    (
        "cluster:\n- {kind: Pod, metadata: {name: a, labels: {b: {}}}}",
        3,
        "labels.b must be a single",
    ),
    ("steps:\n- {apply: []}", 3, "a step must say when"),
    ("steps:\n- {at: 1s, evict: []}", 3, "a step has no key 'evict'"),
    ("steps:\n- {at: 2s}\n- {at: 1s}", 4, "comes before the one above"),
    ("until: 1s\nsteps:\n- {at: 2s}", 4, "comes after the end of the scenario"),
    ("steps:\n- {at: 1s, delete: [{kind: Pod, name: a}]}", 3, "there is no Pod default/a by then"),
    ("steps:\n- {at: 1s, delete: [{kind: Pod}]}", 3, "name is missing"),
    ("steps:\n- {at: 1s, fail: [{pod: a}]}", 3, "there is no Pod default/a by then"),
    (f"cluster: [{POD}]\nsteps:\n- {{at: 1s, patch: [{{kind: Pod, name: a}}]}}", 4, "what changes"),
    ("trace: {format: csv, nodes: a, pods: b}", 2, "'csv' is not known"),
    ("trace: {format: openb, nodes: a}", 2, "trace: pods is missing"),
    ("trace: {format: openb, nodes: a, pods: b, order: random}", 2, "neither time nor saturate"),
    ("workload: closedb", 2, "'closedb' is not known; known are openb, spot-gpu"),
    ("workload: {name: openb, load: 2}", 2, "workload.load goes with `name: spot-gpu` only"),
    ("workload: {name: spot-gpu, load: much}", 2, "workload.load must be a number from 0.01"),
    ("workload: {name: spot-gpu, spot: 1.1}", 2, "workload.spot must be a number from 0.01 to 1"),
    ("workload: {name: spot-gpu, spot: 0}", 2, "workload.spot must be a number from 0.01 to 1"),
    ("workload: {name: spot-gpu, load: 10.1}", 2, "load must be a number from 0.01 to 10"),
    ("workload: {name: openb, scale: 99}", 2, "a number from 0.01 to 10"),
    ("expect: 3", 2, "expect must be a mapping"),
    ("cluster: [", 3, "not YAML"),
    ("expect: {pods: &a [*a]}", 2, "*a contains itself"),
    ("policy: {weight: .nan}", 2, ".nan is not a number"),
]


@pytest.mark.parametrize(("text", "line", "reason"), BROKEN, ids=[reason for *_, reason in BROKEN])
def test_what_cannot_be_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_scenario(f"scenario: broken\n{text}\n", "dir/broken.yaml")
    message = str(caught.value)
    assert message.startswith(f"dir/broken.yaml:{line}: ")
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", "[]", "just a text", "\0", "a: \ud800", "period: 1s"])
def test_what_is_no_scenario_at_all_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^broken\.yaml:1: "):
        parse_scenario(text, "broken.yaml")


def test_yaml_one_point_one_does_not_turn_texts_into_other_things() -> None:
    read = scenario(
        "expect: {pods: {a: yes, b: off, c: 12:30, d: 2026-01-01, e: 010, f: true, g: 1_0}}"
    )
    assert read.expect == {
        "pods": {
            "a": "yes",
            "b": "off",
            "c": "12:30",
            "d": "2026-01-01",
            "e": "010",
            "f": True,
            "g": "1_0",
        }
    }


def test_a_key_of_a_manifest_that_is_not_read_passes() -> None:
    [placed] = scenario("cluster: [{kind: Pod, metadata: {name: a}, spec: {colour: red}}]").cluster
    assert section(placed.manifest, "spec") == {"colour": "red"}


def test_a_step_may_name_what_a_controller_will_make() -> None:
    text = """\
    cluster: [{kind: Job, metadata: {name: train}, spec: {template: {spec: {}}}}]
    steps: [{at: 1s, fail: [{pod: train-0}]}]
    """
    assert scenario(dedent(text)).steps == (Fail(SECOND, "default", "train-0", 1),)


SOUND = """\
scenario: sound
cluster:
  - {kind: Node, metadata: {name: "n{i}", labels: {a: b}}, status: {allocatable: {cpu: 4}}, count: 2}
  - {kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}}
  - kind: Job
    apiVersion: batch.volcano.sh/v1alpha1
    metadata: {name: v}
    spec: {minAvailable: 1, tasks: [{name: t, replicas: 1, template: {spec: {}}}]}
steps:
  - {at: 1s, fail: [{pod: j-0}]}
  - {at: 2s, patch: [{kind: Node, name: n1, merge: {spec: {unschedulable: true}}}]}
"""


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(SOUND)),
    st.integers(0, 12),
    st.text("{}[]:,-\"'*&!#\n 0s.null~x", max_size=6),
)
def test_a_spoilt_scenario_is_refused_or_can_be_played(at: int, cut: int, put: str) -> None:
    refusal = ""
    try:
        read = parse_scenario(SOUND[:at] + put + SOUND[at + cut :], "spoilt.yaml")
    except UsageError as error:
        refusal, read = str(error), Scenario(name="refused")
    assert "\n" not in refusal
    made = SimulatedCluster(read)
    made.poll_watch()
    made.advance(10 * SECOND)
    made.poll_watch()
