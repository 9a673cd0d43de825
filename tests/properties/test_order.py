"""What is there decides, not in which order a list happened to show it."""

from hashlib import sha256

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import DeletionSeen, ListCompleted, ObjectSeen, WatchMessage
from events.record import GENESIS
from features.table import FEATURES
from projections.state import State
from simulator.manifest_fields import section
from tests.example_count import examples
from tests.properties import shapes
from tests.properties.api import KINDS, Api
from tests.properties.card_cluster_sim import (
    CardClusterSim,
    Day,
    NodeShape,
    lives,
    node_shapes,
    policies,
    quotas,
)

COUNT = 8


@st.composite
def clusters(draw: st.DrawFn) -> Api:
    """A cluster without decisions."""
    api = Api()
    api.put("PriorityClass", "high", {"value": 5})
    for index in range(draw(st.integers(1, 4))):
        meta, body = draw(shapes.nodes())
        api.put("Node", f"n{index}", body, meta)
    for name in draw(st.sets(shapes.queue_names)):
        meta, body = draw(shapes.queues())
        api.put("Queue", name, body, meta)
    for name in draw(st.sets(shapes.group_names)):
        api.put("PodGroup", name, draw(shapes.groups()))
    for index in range(draw(st.integers(1, COUNT))):
        meta, body = agreed(*draw(shapes.pods()))
        for copy in range(draw(st.integers(1, 3))):
            api.put("Pod", f"p{index}-{copy}", body, meta)
    return api


def agreed(meta: shapes.Body, body: shapes.Body) -> shapes.Shape:
    """Pods of one group say the same about it: where they do not, the first one seen is believed."""
    annotations, labels = dict(section(meta, "annotations")), dict(section(meta, "labels"))
    label = labels.get("pod-group.scheduling.sigs.k8s.io/name")
    name = str(label or annotations.get(shapes.GROUP, ""))
    if not name:
        return meta, body
    if name == "g3":
        annotations.pop(shapes.GROUP, None)
        labels["pod-group.scheduling.sigs.k8s.io/name"] = name
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = "2"
    else:
        labels, annotations[shapes.GROUP] = {}, name
    annotations[shapes.QUEUE] = "qa"
    spec = {**section(body, "spec"), "priority": 1}
    return {"annotations": annotations, "labels": labels}, {**body, "spec": spec}


def decisions(api: Api, policy: bytes, shuffled: dict[str, list[int]]) -> list[tuple[str, bytes]]:
    """What the first cycle decides, each kind being listed in some order."""
    engine = Engine(State(FEATURES), GENESIS)
    started = DaemonStarted(holder="test", version="0", period_ns=1, scheduler_names=("muster",))
    engine.start(started, PolicyChanged(source="test", policy=msgspec.Raw(policy)), 1, 0)
    for kind in KINDS:
        objects = [obj for (one, _), obj in api.objects.items() if one == kind]
        order = sorted(range(len(objects)), key=lambda index: shuffled[kind][index % COUNT])
        engine.observe([ObjectSeen(msgspec.json.encode(objects[index])) for index in order], 0)
        engine.observe([ListCompleted(kind, "1", len(objects))], 0)
    batch = engine.cycle(0)
    engine.state.validate()
    return [] if batch is None else [(one.kind, one.body) for one in batch.records]


@given(
    api=clusters(),
    policy=st.sampled_from(shapes.POLICIES),
    shuffled=st.fixed_dictionaries({kind: st.permutations(range(COUNT)) for kind in KINDS}),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_order_of_a_list_decides_nothing(
    api: Api, policy: bytes, shuffled: dict[str, list[int]]
) -> None:
    as_made = {kind: list(range(COUNT)) for kind in KINDS}
    assert decisions(api, policy, as_made) == decisions(api, policy, shuffled)


def mixed(shown: list[WatchMessage], seed: int) -> list[WatchMessage]:
    """The same, where each kind shows its objects in another order; of one object all comes as it came."""
    kinds: list[str] = []
    objects: dict[str, dict[str, list[WatchMessage]]] = {}
    for one in shown:
        assert isinstance(one, ObjectSeen | DeletionSeen)
        obj = msgspec.json.decode(one.raw)
        kinds.append(obj["kind"])
        uid = section(obj, "metadata")["uid"]
        objects.setdefault(obj["kind"], {}).setdefault(str(uid), []).append(one)
    waiting: dict[str, list[WatchMessage]] = {}
    for kind, lists in objects.items():
        order = sorted(lists, key=lambda uid: sha256(f"{seed} {uid}".encode()).digest())
        waiting[kind] = [one for uid in order for one in lists[uid]]
    return [waiting[kind].pop(0) for kind in kinds]


def decided(card_sim: CardClusterSim) -> list[tuple[str, bytes]]:
    """All that was ever decided."""
    records = [record for record, _ in card_sim.sim.witness.log]
    return [(one.kind, one.body) for one in records if "_decided" in one.kind]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=policies,
    there=st.lists(node_shapes, min_size=1, max_size=3),
    quota=st.tuples(quotas, quotas),
    days=lives(),
    seed=st.integers(0, 1 << 16),
)
def test_the_order_within_a_batch_decides_nothing_for_as_long_as_a_cluster_lives(
    policy: bytes,
    there: list[NodeShape],
    quota: tuple[dict[str, int], dict[str, int]],
    days: list[Day],
    seed: int,
) -> None:
    one, other = CardClusterSim(policy, there, quota), CardClusterSim(policy, there, quota)
    other.sim.arrange = lambda shown: mixed(shown, seed)
    for day in days:
        one.live(day)
        other.live(day)
        assert decided(one) == decided(other)
