"""What a pod asks for in all, and which pods are equal."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.normalize import Json, JsonObject
from projections.objects import PodObject, read
from projections.pod_class import AMOUNT_MAX, PodClass, card_names, parse_class
from projections.pods import pod_facts


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
    return parse_class(0, pod(spec)).amounts


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
    assert parse_class(0, pod({"containers": [container(cpu="0")]})).is_best_effort
    assert not parse_class(0, pod({"containers": [container(cpu="1m")]})).is_best_effort


@pytest.mark.parametrize("quantity", ["1.5x", "", "--1", "1ee3"])
def test_a_quantity_that_cannot_be_read_is_a_reason(quantity: str) -> None:
    found = parse_class(0, pod({"containers": [container(cpu=quantity)]}))
    assert found.unsupported
    assert found.request == (("pods", 1),)


def test_a_quantity_beyond_all_measure_is_bounded() -> None:
    found = parse_class(0, pod({"containers": [container(memory="9E"), container(cpu="1e30")]}))
    assert all(amount <= AMOUNT_MAX << 10 for _, amount in found.request)


def test_equal_demands_are_one_class_and_others_another() -> None:
    plain: JsonObject = {"containers": [container(cpu="1")]}
    assert pod_facts(pod(plain))[1] == pod_facts(pod(plain, unrelated="x"))[1]
    others: list[PodObject] = [
        pod({"containers": [container(cpu="2")]}),
        pod({"initContainers": [container(cpu="1")]}),
        pod({**plain, "nodeSelector": {"a": "b"}}),
        pod({**plain, "tolerations": [{"operator": "Exists"}]}),
        pod({**plain, "overhead": {"cpu": "1"}}),
        pod(plain, **{"volcano.sh/card.name": "A"}),
    ]
    keys = [pod_facts(other)[1] for other in (pod(plain), *others)]
    assert len(set(keys)) == len(keys)


def test_only_volumes_that_need_a_claim_are_in_claims() -> None:
    def demand(**volume: Json) -> PodClass:
        named: JsonObject = {"name": "data", **volume}
        return parse_class(0, pod({"containers": [container(cpu="1")], "volumes": [named]}))

    assert "data" in demand(persistentVolumeClaim={"claimName": "x"}).claims
    assert "data" in demand(ephemeral={"volumeClaimTemplate": {}}).claims
    assert demand(secret={"secretName": "x"}).claims == ""
    assert demand(persistentVolumeClaim=None, emptyDir={}).claims == ""


@given(st.text(alphabet="AB| ", max_size=12))
def test_card_names_are_trimmed_and_unique(text: str) -> None:
    names = card_names(text)
    assert len(set(names)) == len(names)
    assert all(name and name == name.strip() and "|" not in name for name in names)
    assert card_names("|".join(names)) == names
