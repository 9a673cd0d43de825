"""What a pod asks for in all, and which pods are equal."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.normalize import Json, JsonObject
from projections.device_families import NO_FAMILIES
from projections.objects import PodObject, read
from projections.pod_class import AMOUNT_MAX, PodClass, card_names, parse_class
from projections.pods import pod_facts
from tests.scheduling.builders import ALL_FAMILIES


def pod(spec: JsonObject, **annotations: str) -> PodObject:
    """A pod with this spec."""
    raw = msgspec.json.encode({"metadata": {"name": "a", "annotations": annotations}, "spec": spec})
    found = read(PodObject, raw)
    assert not isinstance(found, str)
    return found


def container(**requests: str) -> JsonObject:
    """A container that asks for so much."""
    asked: dict[str, Json] = {**requests}
    return {"resources": {"requests": asked}}


def request(spec: JsonObject) -> dict[str, int]:
    """What a pod with this spec asks for."""
    return parse_class(0, pod(spec), ALL_FAMILIES).amounts


def test_containers_add_up() -> None:
    asked = request({"containers": [container(cpu="1"), container(cpu="500m", memory="1Ki")]})
    assert asked == {"cpu": 1500, "memory": 1024, "pods": 1}


def test_the_largest_init_container_counts_where_it_is_more() -> None:
    spec: JsonObject = {
        "initContainers": [container(cpu="3"), container(cpu="2", memory="1Ki")],
        "containers": [container(cpu="1", memory="2Ki")],
    }
    assert request(spec) == {"cpu": 3000, "memory": 2048, "pods": 1}


def test_a_sidecar_counts_beside_what_comes_after_it() -> None:
    sidecar: JsonObject = {**container(cpu="1"), "restartPolicy": "Always"}
    spec: JsonObject = {
        "initContainers": [container(cpu="3"), sidecar, container(cpu="4")],
        "containers": [container(cpu="2")],
    }
    assert request(spec)["cpu"] == 5000
    spec["initContainers"] = [container(cpu="3"), sidecar]
    assert request(spec)["cpu"] == 3000
    spec["containers"] = [container(cpu="7")]
    assert request(spec)["cpu"] == 8000


def test_overhead_comes_on_top_and_requests_of_the_pod_instead() -> None:
    spec: JsonObject = {"containers": [container(cpu="1")], "overhead": {"cpu": "100m"}}
    assert request(spec)["cpu"] == 1100
    spec["resources"] = {"requests": {"cpu": "4"}}
    assert request(spec)["cpu"] == 4100


def test_a_missing_request_takes_the_limit() -> None:
    spec: JsonObject = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    assert request(spec) == {"nvidia.com/gpu": 2, "pods": 1}


def test_nothing_asked_for_is_best_effort() -> None:
    assert parse_class(0, pod({"containers": [container(cpu="0")]}), ALL_FAMILIES).is_best_effort
    assert not parse_class(
        0, pod({"containers": [container(cpu="1m")]}), ALL_FAMILIES
    ).is_best_effort


@pytest.mark.parametrize("quantity", ["1.5x", "", "--1", "1ee3"])
def test_a_quantity_that_cannot_be_read_is_a_reason(quantity: str) -> None:
    found = parse_class(0, pod({"containers": [container(cpu=quantity)]}), ALL_FAMILIES)
    assert found.unsupported
    assert found.request == (("pods", 1),)


def test_a_quantity_beyond_all_measure_is_bounded() -> None:
    found = parse_class(
        0, pod({"containers": [container(memory="9E"), container(cpu="1e30")]}), ALL_FAMILIES
    )
    assert all(amount <= AMOUNT_MAX << 10 for _, amount in found.request)


def test_equal_demands_are_one_class_and_others_another() -> None:
    plain: JsonObject = {"containers": [container(cpu="1")]}
    assert (
        pod_facts(pod(plain), ALL_FAMILIES)[1]
        == pod_facts(pod(plain, unrelated="x"), ALL_FAMILIES)[1]
    )
    others: list[PodObject] = [
        pod({"containers": [container(cpu="2")]}),
        pod({"initContainers": [container(cpu="1")]}),
        pod({**plain, "nodeSelector": {"a": "b"}}),
        pod({**plain, "tolerations": [{"operator": "Exists"}]}),
        pod({**plain, "overhead": {"cpu": "1"}}),
        pod(plain, **{"volcano.sh/card.name": "A"}),
    ]
    keys = [pod_facts(other, ALL_FAMILIES)[1] for other in (pod(plain), *others)]
    assert len(set(keys)) == len(keys)


def test_only_volumes_that_need_a_claim_are_in_claims() -> None:
    def demand(**volume: Json) -> PodClass:
        named: JsonObject = {"name": "data", **volume}
        return parse_class(
            0, pod({"containers": [container(cpu="1")], "volumes": [named]}), ALL_FAMILIES
        )

    [named] = demand(persistentVolumeClaim={"claimName": "x"}).claims
    assert (named.volume, named.claim, named.owner) == ("data", "default/x", "")
    [owned] = demand(ephemeral={"volumeClaimTemplate": {}}).claims
    assert (owned.volume, owned.claim) == ("data", "default/a-data")
    assert demand(secret={"secretName": "x"}).claims == ()
    assert demand(persistentVolumeClaim=None, emptyDir={}).claims == ()


@given(st.text(alphabet="AB| ", max_size=12))
def test_card_names_are_trimmed_and_unique(text: str) -> None:
    names = card_names(text)
    assert len(set(names)) == len(names)
    assert all(name and name == name.strip() and "|" not in name for name in names)
    assert card_names("|".join(names)) == names


def resized(spec: JsonObject, status: JsonObject) -> dict[str, int]:
    """What a pod on a node counts as, and what its class has."""
    raw = msgspec.json.encode(
        {"metadata": {"name": "a"}, "spec": {"nodeName": "n1", **spec}, "status": status}
    )
    found = read(PodObject, raw)
    assert not isinstance(found, str)
    return parse_class(0, found, ALL_FAMILIES).amounts


def reported(**amounts: tuple[str | None, str | None]) -> list[Json]:
    """Statuses of containers with their allocated and actual cpu."""
    return [
        {
            "name": name,
            **({} if allocated is None else {"allocatedResources": {"cpu": allocated}}),
            **({} if actual is None else {"resources": {"requests": {"cpu": actual}}}),
        }
        for name, (allocated, actual) in amounts.items()
    ]


def pending(reason: str) -> list[Json]:
    """The condition of a pod whose resize waits."""
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


@pytest.mark.parametrize(
    ("spec", "allocated", "actual", "reason", "counts"),
    [
        ("4", "2", "2", "Deferred", 4000),
        ("4", "2", "2", "Infeasible", 2000),
        ("4", "2", "2", "SomethingNew", 4000),
        ("1", "1", "2", "", 2000),
        ("2", "1500m", "1", "", 2000),
        ("100", "1600m", "1", "Infeasible", 1600),
        ("2", None, None, "", 2000),
        ("2", "6", None, "", 2000),
        ("1", "6", "6", "Deferred", 6000),
        ("2", "much", "6", "", 2000),
        ("2", "-6", "6", "", 2000),
    ],
)
def test_a_container_counts_as_the_largest_of_spec_allocated_and_actual(
    spec: str, allocated: str | None, actual: str | None, reason: str, counts: int
) -> None:
    one: JsonObject = {**container(cpu=spec), "name": "c"}
    status: JsonObject = {
        "containerStatuses": reported(c=(allocated, actual)),
        "conditions": pending(reason) if reason else [],
    }
    assert resized({"containers": [one]}, status)["cpu"] == counts
    waiting: JsonObject = {"containers": [one]}
    assert request(waiting)["cpu"] == int(spec) * 1000, "only on a node"


def test_sidecars_are_resized_and_init_containers_are_not() -> None:
    sidecar: JsonObject = {**container(cpu="1"), "name": "s", "restartPolicy": "Always"}
    init: JsonObject = {**container(cpu="9"), "name": "i"}
    spec: JsonObject = {
        "initContainers": [init, sidecar],
        "containers": [
            {**container(cpu="2"), "name": "a"},
            {**container(cpu="3"), "name": "b"},
        ],
        "overhead": {"cpu": "500m"},
    }
    assert resized(spec, {})["cpu"] == 9500
    status: JsonObject = {
        "initContainerStatuses": reported(s=("6", "1"), i=("20", "20")),
        "containerStatuses": reported(a=("2", "2"), b=("3", "3")),
    }
    assert resized(spec, status)["cpu"] == 11_500
    whole: JsonObject = {**spec, "resources": {"requests": {"cpu": "10"}}}
    assert resized(whole, status)["cpu"] == 10_500, (
        "what the pod as a whole states replaces the sum"
    )
    assert resized({**spec, "resources": {"limits": {"cpu": "10"}}}, {})["cpu"] == 9500


@pytest.mark.parametrize(
    ("reason", "counts"), [("Infeasible", 6000), ("Deferred", 8000), ("", 8000)]
)
def test_a_pod_as_a_whole_is_resized(reason: str, counts: int) -> None:
    spec: JsonObject = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "8"}}}
    status: JsonObject = {
        "conditions": pending(reason) if reason else [],
        "allocatedResources": {"cpu": "6"},
        "resources": {"requests": {"cpu": "6"}},
    }
    assert resized(spec, status)["cpu"] == counts


def test_cards_are_never_resized() -> None:
    one: JsonObject = {**container(**{"cpu": "4", "nvidia.com/gpu": "2"}), "name": "c"}
    requests: JsonObject = {"cpu": "2", "nvidia.com/gpu": "7"}
    status: JsonObject = {
        "conditions": pending("Infeasible"),
        "containerStatuses": [
            {"name": "c", "allocatedResources": requests, "resources": {"requests": requests}}
        ],
    }
    assert resized({"containers": [one]}, status) == {"cpu": 2000, "nvidia.com/gpu": 2, "pods": 1}


def test_pods_that_count_alike_are_one_class_and_others_are_not() -> None:
    def key(status: JsonObject) -> object:
        spec: JsonObject = {"nodeName": "n1", "containers": [{**container(cpu="1"), "name": "c"}]}
        raw = msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec, "status": status})
        found = read(PodObject, raw)
        assert not isinstance(found, str)
        return pod_facts(found, ALL_FAMILIES)[1]

    assert key({"containerStatuses": reported(c=("1", "1"))}) == key({})
    assert key({"containerStatuses": reported(c=("2", "1"))}) != key({})
    grown = key({"containerStatuses": reported(c=("2", "1"))})
    assert grown == key({"containerStatuses": reported(c=("1", "2"))})


def test_what_no_device_family_reads_is_no_part_of_a_class() -> None:
    halves = pod({"containers": [container(cpu="1")]}, **{"gpu-fraction": "0.5"})
    with_family, without = parse_class(0, halves, ALL_FAMILIES), parse_class(0, halves, NO_FAMILIES)
    assert with_family.device_options
    assert without.device_options == ()
    assert without.amounts == {"cpu": 1_000, "pods": 1}
