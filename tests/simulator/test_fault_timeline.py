"""Faults that are drawn from rates: how many, of what, for how long, and that the same seed gives the same."""

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import DocumentError
from simulator import fault_timeline
from simulator.fault_rates import CLASSES, DAY, HOUR, LINK_DOWN, MINUTE
from simulator.fault_steps import RaiseFault
from simulator.fault_timeline import fault_steps
from simulator.random_sequence import RandomSequence
from simulator.scenario import Scenario
from simulator.scenario_sources import load_sources
from tests.simulator.builders import SECOND, scenario

NODES = """\
until: {hours}h
faults: {faults}
cluster:
  - kind: Node
    metadata: {{name: "n{{i}}"}}
    status: {{allocatable: {{nvidia.com/gpu: 8, rdma/hca: 8}}}}
    count: {count}
"""

SWITCHES = """\
until: 8760h
faults: {seed: 1, lemons: {share: 0}, rates: {node_stop: 0, card_fatal: 0, card_recoverable: 0, link_down: 0, false_alarm: 0}}
cluster:
  - {kind: Node, metadata: {name: n1}}
  - apiVersion: topology.volcano.sh/v1alpha1
    kind: HyperNode
    metadata: {name: "leaf{i}"}
    spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n1}}}]}
    count: 500
  - apiVersion: topology.volcano.sh/v1alpha1
    kind: HyperNode
    metadata: {name: spine}
    spec: {tier: 2, members: [{type: HyperNode, selector: {exactMatch: {name: leaf1}}}]}
"""

CHIPS = """\
until: 87600h
faults: {seed: 1, lemons: {share: 0}}
cluster:
  - kind: Node
    metadata:
      name: n1
      annotations: {baseDeviceInfos: '{"Ascend910-0":{},"Ascend910-1":{}}'}
    status: {allocatable: {huawei.com/Ascend910: 2}}
"""


def drawn(text: str) -> tuple[RaiseFault, ...]:
    return steps_of(scenario(text))


def steps_of(read: Scenario) -> tuple[RaiseFault, ...]:
    assert read.faults is not None
    assert read.until_ns is not None
    return fault_steps(read.faults, read.cluster, read.until_ns)


def of(count: int, hours: int, faults: str) -> tuple[RaiseFault, ...]:
    return drawn(NODES.format(count=count, hours=hours, faults=faults))


def only(name: str, more: str = "") -> str:
    """The rates of one class alone."""
    others = ", ".join(f"{one}: 0" for one in CLASSES if one != name)
    return f"{{rates: {{{others}}}, lemons: {{share: 0}}{more}}}"


@pytest.mark.parametrize(
    ("name", "a_day"),
    [("node_stop", 1.6), ("card_fatal", 4.4), ("card_recoverable", 13.1), ("false_alarm", 10)],
)
def test_2000_nodes_of_8_cards_have_the_published_faults_a_day(name: str, a_day: float) -> None:
    """Meta's and Llama 3's clusters had 2.3 to 6.5 faults in 1,000 node-days."""
    days = 100
    found = of(2000, 24 * days, only(name))
    repeats = 1.195 if name.startswith("card") else 1
    assert 0.85 * a_day * days < len(found) < 1.15 * a_day * days * repeats


def test_half_of_the_links_that_go_down_flap() -> None:
    found = of(2000, 24 * 365, only(LINK_DOWN))
    flaps = [step for step in found if (step.duration_ns or 0) <= 3 * SECOND]
    assert all(step.detection_ns == 0 for step in flaps)
    lasting = [step for step in found if (step.duration_ns or 0) >= HOUR]
    assert len(flaps) + len(lasting) == len(found)
    of_link = Counter(step.place for step in flaps)
    assert min(of_link.values()) >= 3
    assert 40 < len(of_link) < 2.5 * len(lasting)


def test_lemons_fail_more_often() -> None:
    usual = len(of(1000, 2400, only("node_stop")))
    lemons = len(of(1000, 2400, only("node_stop").replace("share: 0", "share: 1, factor: 5")))
    assert 4 * usual < lemons < 6 * usual
    few = of(1000, 24000, only("node_stop").replace("share: 0", "share: 0.01, factor: 30"))
    most = Counter(step.place.name for step in few).most_common(5)
    assert all(count > 10 for _, count in most), "a usual node fails 0.8 times"


def test_cards_fail_again() -> None:
    steps = of(1000, 24 * 365, only("card_fatal"))
    twice = [place for place, count in Counter(step.place for step in steps).items() if count > 1]
    assert 0.1 < len(twice) / len(steps) < 0.35


def test_durations_and_delays_are_those_of_the_class() -> None:
    found = of(2000, 2400, only("node_stop"))
    reboots = [step for step in found if (step.duration_ns or 0) <= 15 * MINUTE]
    weeks = [step for step in found if (step.duration_ns or 0) > DAY]
    assert 0.2 < len(reboots) / len(found) < 0.4
    assert 0.12 < len(weeks) / len(found) < 0.28
    assert all(40 * SECOND <= step.detection_ns <= 50 * SECOND for step in found)
    assert all(step.duration_ns is not None and step.duration_ns >= 5 * MINUTE for step in found)


def test_switches_of_the_lowest_tier_go_down_with_their_hosts() -> None:
    found = drawn(SWITCHES)
    assert {step.place.kind for step in found} == {"switch"}
    assert "spine" not in {step.place.name for step in found}
    assert 6 < len(found) < 22, "2 of 1,000 a month, 500 for a year"


def test_chips_have_levels_and_their_own_links() -> None:
    found = drawn(CHIPS.replace("seed: 1", "seed: 1, scale: 1000"))
    assert {step.level for step in found if step.kind == "chip"} == {
        "SeparateNPU",
        "RestartNPU",
        "SubHealthFault",
        "RestartRequest",
    }
    links = [step for step in found if step.kind == "network"]
    assert links
    assert {step.place.part for step in links} <= {"Ascend910-0", "Ascend910-1"}


def test_counted_cards_can_be_shown_by_a_condition_as_well() -> None:
    found = of(500, 2400, only("card_fatal", ", card_condition: GpuUnhealthy"))
    shown = [step for step in found if step.place.kind == "condition"]
    broken = [step for step in found if step.place.kind == "device"]
    assert len(shown) == len(broken) > 0
    ends = {(one.place.name, one.at_ns + (one.duration_ns or 0)) for one in broken}
    assert {(one.place.name, one.at_ns + (one.duration_ns or 0)) for one in shown} == ends


def test_cards_are_the_resources_that_the_scenario_names() -> None:
    assert {one.place.part[:12] for one in of(200, 2400, only("card_fatal"))} == {"nvidia.com/g"}
    named = of(200, 2400, only("card_fatal", ", cards: [rdma/hca]"))
    assert {one.place.part[:8] for one in named} == {"rdma/hca"}


def test_the_same_seed_gives_the_same_faults_in_whatever_order_the_nodes_are() -> None:
    read = scenario(NODES.format(count=300, hours=2400, faults="{seed: 7}"))
    assert read.faults is not None
    assert read.until_ns is not None
    first = steps_of(read)
    assert fault_steps(read.faults, tuple(reversed(read.cluster)), read.until_ns) == first
    assert of(300, 2400, "{seed: 8}") != first
    earlier = of(300, 1200, "{seed: 7}")
    assert earlier == tuple(one for one in first if one.at_ns <= 1200 * HOUR)


def test_faults_can_begin_later() -> None:
    first, later = of(300, 1000, "{seed: 7}"), of(300, 1100, "{seed: 7, after: 100h}")
    assert [one.at_ns + 100 * HOUR for one in first] == [one.at_ns for one in later]


def test_a_scenario_has_its_own_steps_before_the_faults_of_the_same_time() -> None:
    text = NODES.format(count=50, hours=2400, faults="{scale: 10}")
    faults = drawn(text)
    at = faults[3].at_ns
    text += (
        f"steps:\n  - {{at: {at // SECOND}.{at % SECOND:09}, delete: [{{kind: Node, name: n1}}]}}\n"
    )
    steps = load_sources(scenario(text), lambda name: "").scenario.steps
    assert len(steps) == len(faults) + 1
    assert steps[3] != faults[3]
    assert steps[4] == faults[3]


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("{preset: best}", "preset: 'best' is not one of low, mid, high"),
        ("{rates: {cosmic_rays: 1}}", "rates has no key 'cosmic_rays'"),
        ("{rates: {node_stop: -1}}", "node_stop must be a number from 0 to 1000000"),
        ("{rates: {node_stop: .nan}}", ".nan is not a number"),
        ("{scale: 1e9}", "scale must be a number from 0 to 1000000"),
        ("{scale: true}", "scale must be a number"),
        ("{flapping: 2}", "flapping must be a number from 0 to 1"),
        ("{lemons: {factor: 0}}", "factor must be"),
        ("{every: 5m}", "faults has no key 'every'"),
    ],
)
def test_a_rate_that_cannot_be_read_is_an_error_with_its_line(faults: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        of(1, 1, faults)
    assert str(error.value).startswith("test.yaml:3: ")
    assert message in str(error.value)


def test_faults_need_an_end_and_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DocumentError, match=r"test.yaml:2: faults need an end of the scenario"):
        scenario("faults: {}\n")
    assert fault_timeline.FAULTS_MAX == 100_000
    monkeypatch.setattr(fault_timeline, "FAULTS_MAX", 1000)
    with pytest.raises(DocumentError, match=r"test.yaml:3: faults: more than 1,000 faults"):
        of(100, 24 * 365, "{scale: 1000000}")


@given(st.integers(1, 10**20), st.integers())
def test_an_exponential_draw_is_not_negative_and_bounded(mean: int, seed: int) -> None:
    draw = RandomSequence(f"test/{seed}").exponential(Decimal(mean))
    assert 0 <= draw <= 45 * mean, "the smallest draw is 2**-64"
