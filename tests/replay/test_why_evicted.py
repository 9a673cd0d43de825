"""Why a pod was evicted, for which preemptor, and why no pod was."""

from pathlib import Path

from replay.why_text import lines_of
from tests.builders import recorded
from tests.replay.test_why import ask

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def scenario(name: str) -> str:
    """A scenario without its first line."""
    text = (SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8")
    return text.partition("\n")[2]


async def test_why_names_the_preemptor_of_an_evicted_pod() -> None:
    entries = await recorded(scenario("preempt/no_more_pods_are_evicted_than_needed"))
    answer = ask(entries, "pod/default/low-2")
    [evicted] = [one for one in answer.steps if one.kind.startswith("eviction_decided")]
    assert evicted.text.startswith(
        "evict 1 pod of default/low: preempt for default/hi: "
        "preempted by pod group default/hi of priority 1000; this pod group has priority 0"
    )
    assert evicted.details == ["default/low-2 leaves n1"]
    assert answer.state.startswith("gone since")


async def test_why_names_the_victims_of_a_preemptor() -> None:
    entries = await recorded(scenario("preempt/no_more_pods_are_evicted_than_needed"))
    answer = ask(entries, "podgroup/default/hi")
    kinds = [one.kind for one in answer.steps]
    assert kinds.index("eviction_decided.v1") < kinds.index("gang_bind_decided.v1")
    [evicted] = [one for one in answer.steps if one.kind == "eviction_decided.v1"]
    assert evicted.details == ["default/low-2 leaves n1", "default/low-1 leaves n1"]


async def test_why_reports_that_evicting_all_victims_would_not_suffice() -> None:
    entries = await recorded(scenario("preempt/no_pod_is_evicted_if_that_is_not_enough"))
    said = "\n".join(lines_of(ask(entries, "podgroup/default/hi")))
    assert "1 node(s) would not have enough room after evicting all allowed victims" in said
