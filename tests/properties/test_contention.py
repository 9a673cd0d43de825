"""Groups that contend for room: evictions end, and the preemptor gets the room of its victims."""

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.normalize import JsonObject
from events.record import Record
from features.table import FEATURES
from projections.snapshot import restore, take
from tests.example_count import examples
from tests.properties.cluster_sim import ClusterSim

PLUGINS = '{"name":"conformance"},{"name":"drf"},{"name":"predicates"}'
FIRST = (
    '{"name":"priority"},{"name":"gang","enablePreemptable":false}',
    '{"name":"priority"},{"name":"gang"}',
    '{"name":"priority","enablePreemptable":false},{"name":"gang"}',
    '{"name":"gang"}',
    '{"name":"priority"},{"name":"gang","enableJobStarving":false,"enableReclaimable":false}',
    '{"name":"priority","enablePreemptable":false},{"name":"gang","enablePreemptable":false,'
    '"enableJobStarving":false,"enableReclaimable":false}',
)
ACTIONS = (
    "allocate, preempt, reclaim",
    "allocate, reclaim, preempt",
    "allocate, gangpreempt, gangreclaim",
    "allocate, gangreclaim, gangpreempt",
    "allocate, gangpreempt, reclaim",
    "allocate, backfill, preempt, reclaim",
)
QUOTAS = ("capacity", "proportion", "capacity-card")


_cpu = st.sampled_from([1, 2, 3, 1, 2, 3, 0])
_memory = st.sampled_from([0, 0, 0, 1, 3])


@st.composite
def policies(draw: st.DrawFn) -> bytes:
    """A policy that evicts, its plugins in one tier or in two."""
    actions = draw(st.sampled_from(["", "enqueue, "])) + draw(st.sampled_from(ACTIONS))
    rest = f'{PLUGINS},{{"name":"{draw(st.sampled_from(QUOTAS))}"}}'
    rest += draw(st.sampled_from(["", ',{"name":"overcommit"}']))
    between = draw(st.sampled_from([",", ']},{"plugins":[']))
    tiers = f'[{{"plugins":[{draw(st.sampled_from(FIRST))}{between}{rest}]}}]'
    return f'{{"actions":"{actions}","tiers":{tiers}}}'.encode()


@st.composite
def groups(draw: st.DrawFn) -> tuple[JsonObject, list[tuple[int, int]]]:
    """The body of a PodGroup, and what cores and memory each of its pods requests."""
    sizes = draw(st.lists(st.tuples(_cpu, _memory), min_size=1, max_size=4))
    least = draw(st.integers(1, len(sizes)))
    spec: JsonObject = {
        "minMember": least,
        "minResources": {"cpu": str(sum(cpu for cpu, _ in sizes[:least]))},
        "queue": draw(st.sampled_from(["qa", "qb"])),
        "priorityClassName": draw(st.sampled_from(["", "", "mid", "high"])),
    }
    phase = draw(st.sampled_from(["Inqueue", "Pending"]))
    return {"spec": spec, "status": {"phase": phase}}, sizes


def decided(log: list[tuple[Record, bytes | None]]) -> Iterator[tuple[Record, object]]:
    """Records with their events."""
    for record, _ in log:
        yield record, event_of(record)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=policies(),
    cores=st.lists(st.integers(2, 4), min_size=1, max_size=2),
    deserved=st.lists(st.tuples(st.integers(0, 6), _memory), min_size=2, max_size=2),
    held=st.sampled_from([None, None, 1, "50%"]),
    places=st.sampled_from(["110", "110", "3"]),
    waves=st.lists(st.lists(groups(), min_size=1, max_size=3), min_size=2, max_size=4),
)
def test_evictions_end_and_are_not_in_vain(
    policy: bytes,
    cores: list[int],
    deserved: list[tuple[int, int]],
    held: int | str | None,
    places: str,
    waves: list[list[tuple[JsonObject, list[tuple[int, int]]]]],
) -> None:
    sim = ClusterSim(policy)
    for name, value in (("mid", 5), ("high", 9)):
        sim.api.put("PriorityClass", name, {"value": value})
    for index, cpu in enumerate(cores):
        status: JsonObject = {"allocatable": {"cpu": str(cpu), "memory": "4Gi", "pods": places}}
        sim.api.put("Node", f"n{index}", {"status": status})
    for name, (cpu, memory) in zip(("qa", "qb"), deserved, strict=True):
        entitled: JsonObject = {"cpu": str(cpu), "memory": f"{memory}Gi"} if cpu else {}
        sim.api.put("Queue", name, {"spec": {"deserved": entitled}})
    if held is not None:
        selector: JsonObject = {"matchLabels": {"first": "yes"}}
        sim.api.put(
            "PodDisruptionBudget", "b", {"spec": {"selector": selector, "minAvailable": held}}
        )
    for number, wave in enumerate(waves):
        for index, (body, sizes) in enumerate(wave):
            group = f"g{number}{index}"
            sim.api.put("PodGroup", group, body)
            for pod, (cpu, memory) in enumerate(sizes):
                requests: JsonObject = {"cpu": str(cpu), "memory": f"{memory}Gi"}
                spec: JsonObject = {
                    "schedulerName": "muster",
                    "containers": [{"name": "m", "resources": {"requests": requests}}],
                }
                meta: JsonObject = {
                    "annotations": {"scheduling.k8s.io/group-name": group},
                    "labels": {"first": "yes" if index == 0 else "no"},
                }
                sim.api.put(
                    "Pod", f"{group}-{pod}", {"spec": spec, "status": {"phase": "Pending"}}, meta
                )
        sim.play()
    _judge(sim)


def _judge(sim: ClusterSim) -> None:
    """Assert that each eviction has a preemptor that reserves the room and is bound there."""
    waiting: dict[str, int] = {}
    owed: dict[str, int] = {}
    for record, event in decided(sim.witness.log):
        if isinstance(event, EvictionDecided):
            waiting[event.in_favour_of] = owed[event.in_favour_of] = record.position
            if event.pod_group != event.in_favour_of:
                owed.pop(event.pod_group, None)  # It had to make way itself.
        elif isinstance(event, PipelineDecided):
            waiting.pop(event.pod_group, None)
        elif isinstance(event, GangBindDecided):
            owed.pop(event.pod_group, None)
        elif isinstance(event, PipelineWithdrawn):
            assert event.pod_group not in owed, f"{record.position}: room that others left is lost"
    kept = take(sim.engine.state)
    assert take(restore(kept, FEATURES)) == kept, "a State that is restored is another"
    assert not waiting, f"evicted for nothing: {waiting}"
    for key, group in sim.engine.state.cluster.groups.items():
        assert not group.decided.nominations, f"{key} waits for {group.decided.nominations}"
