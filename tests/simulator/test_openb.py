"""The openb trace and the workload made from its counts."""

import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from simulator.cluster import SimulatedCluster
from simulator.errors import TraceError
from simulator.generated_workload import GeneratedWorkload, with_workload
from simulator.manifest import Manifest
from simulator.manifest_fields import section, text_at
from simulator.openb import POLICY
from simulator.openb_table import count_trace, shipped_table, write_table
from simulator.openb_trace import TraceText, openb_trace_workload
from simulator.openb_workload import openb_workload
from simulator.scenario import Apply, Scenario, WorkloadSource
from tests.simulator.builders import SECOND, scenario

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,1024,0,\nn2,64000,2048,2,P100\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,1000,512,1,460,,LS,Running,10,90,20
b,2000,512,2,1000,T4|P100|P100,BE,Running,10,15,10
c,500,512,0,0,,LS,Pending,40,50,
"""


def text(content: str, name: str = "pods.csv") -> TraceText:
    """A file of a trace."""
    return TraceText(name, content)


def workload(order: str = "time", arrivals: str | None = None) -> GeneratedWorkload:
    """The small trace above."""
    listed = None if arrivals is None else text(arrivals, "arrivals.csv")
    return openb_trace_workload(text(NODES, "nodes.csv"), text(PODS), order=order, arrivals=listed)


def manifests(made: GeneratedWorkload) -> dict[str, Manifest]:
    """Every object by name."""
    applied = [step.manifest for step in made.steps if isinstance(step, Apply)]
    found = [*(placed.manifest for placed in made.cluster), *applied]
    return {text_at(section(one, "metadata"), "name"): one for one in found}


def test_nodes_get_what_discovery_reads() -> None:
    node = manifests(workload())["n2"]
    assert section(node, "metadata", "labels")["nvidia.com/gpu.product"] == "P100"
    assert section(node, "status", "allocatable") == {
        "cpu": "64000m",
        "memory": "2048Mi",
        "pods": "256",
        "nvidia.com/gpu": "2",
    }
    assert "nvidia.com/gpu" not in section(manifests(workload())["n1"], "status", "allocatable")


def test_pods_name_the_cards_they_accept_once_and_in_order() -> None:
    made = manifests(workload())
    assert section(made["b"], "metadata", "annotations") == {
        "scheduling.volcano.sh/queue-name": "be",
        "volcano.sh/card.name": "T4|P100",
        "muster.sh/run-seconds": "5",
    }
    assert "volcano.sh/card.name" not in section(made["a"], "metadata", "annotations")


def test_a_queue_may_use_every_card_of_the_cluster() -> None:
    annotations = section(manifests(workload())["ls"], "metadata", "annotations")
    assert annotations == {"volcano.sh/card.quota": '{"P100":2}'}


def test_a_shared_card_counts_as_a_whole_one_and_is_noted() -> None:
    notes = workload().notes
    assert (notes.pods, notes.card_pods, notes.shares, notes.cards_asked) == (3, 2, 1, 3)
    assert notes.cards == {"P100": 2}


def test_times_are_played_as_recorded() -> None:
    made = workload()
    assert [step.at_ns // SECOND for step in made.steps] == [0, 0, 30]
    # It never got a node: its lifetime counts from its creation.
    annotations = section(manifests(made)["c"], "metadata", "annotations")
    assert annotations["muster.sh/run-seconds"] == "10"


def test_saturation_offers_one_pod_a_cycle_and_lets_none_leave() -> None:
    made = workload("saturate", "idx,pod,source_pod\n0,b,b\n1,b-tuned-1,b\n2,a,a\n")
    assert [step.at_ns // SECOND for step in made.steps] == [0, 1, 2]
    found = manifests(made)
    assert "b-tuned-1" in found
    assert "muster.sh/run-seconds" not in section(found["b"], "metadata", "annotations")
    in_file_order = workload("saturate").steps
    assert [
        text_at(section(step.manifest, "metadata"), "name")
        for step in in_file_order
        if isinstance(step, Apply)
    ] == ["a", "b", "c"]


def test_a_scenario_keeps_its_own_policy_and_steps() -> None:
    own = scenario("steps: [{at: 0s, apply: [{kind: Pod, metadata: {name: own}}]}]")
    whole = with_workload(own, workload())
    first = whole.steps[0]
    assert isinstance(first, Apply)
    assert text_at(section(first.manifest, "metadata"), "name") == "own"
    assert whole.policy == POLICY
    assert with_workload(scenario("policy: {a: 1}"), workload()).policy == {"a": 1}


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        (NODES.replace("gpu,", "cards,"), PODS, "nodes.csv: column gpu is missing"),
        (NODES, PODS.replace("gpu_spec", "spec"), "pods.csv: column gpu_spec is missing"),
        ("", PODS, "nodes.csv: column sn is missing"),
        (NODES.replace("64000", "many"), PODS, "nodes.csv:3: column cpu_milli: 'many' is not"),
        (NODES.replace("64000", "-1"), PODS, "nodes.csv:3: column cpu_milli: '-1' is not"),
        (NODES + "n2,1,1,0,\n", PODS, "nodes.csv:4: column sn: node n2 stands twice"),
        (NODES + "n3,1\n", PODS, "nodes.csv:4: 2 values in a table of 5 columns"),
        (NODES.replace("P100", ""), PODS, "nodes.csv:3: column model: is empty"),
        (NODES, PODS.replace("10,15,10", "10,5,10"), "pods.csv:3: column deletion_time: 5 is"),
        (NODES, PODS + "a" + PODS.splitlines()[1][1:], "pods.csv:5: column name: pod a stands"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(nodes: str, pods: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        openb_trace_workload(text(nodes, "nodes.csv"), text(pods))
    assert message in str(caught.value)


def test_an_order_of_arrival_must_name_pods_of_the_list() -> None:
    with pytest.raises(
        TraceError, match=r"arrivals\.csv:2: column source_pod: x is not in the list"
    ):
        workload("saturate", "pod,source_pod\na,x\n")


def test_the_workload_has_the_inventory_and_the_mix_of_the_trace() -> None:
    made = openb_workload(WorkloadSource("openb"), shipped_table())
    assert (made.notes.nodes, made.notes.pods, made.notes.card_pods) == (1523, 8152, 7064)
    assert (made.notes.shares, made.notes.cards_asked) == (3078, 7433)
    assert made.notes.cards == {
        "A10": 2,
        "G2": 4392,
        "G3": 312,
        "P100": 265,
        "T4": 842,
        "V100M16": 195,
        "V100M32": 204,
    }


def digest(made: GeneratedWorkload) -> str:
    """One digest over all objects and times."""
    objects = [placed.manifest for placed in made.cluster]
    applied = [(step.at_ns, step.manifest) for step in made.steps if isinstance(step, Apply)]
    return sha256(msgspec.json.encode((objects, applied), order="sorted")).hexdigest()


def test_the_workload_is_the_same_bytes_everywhere() -> None:
    made = openb_workload(WorkloadSource("openb", scale_percent=10), shipped_table())
    assert digest(made) == "e2726f92b6356a22d35d96a66f544c492bacb7a3799e268aaccd23a04e7925b7"
    assert (made.notes.nodes, made.notes.pods) == (152, 815)


def test_another_seed_makes_another_order_of_the_same_pods() -> None:
    def shapes(seed: int) -> list[str]:
        made = openb_workload(WorkloadSource("openb", seed=seed, scale_percent=5), shipped_table())
        specs = [step.manifest["spec"] for step in made.steps if isinstance(step, Apply)]
        return [msgspec.json.encode(spec).decode() for spec in specs]

    one, other = shapes(1), shapes(2)
    assert one != other
    assert Counter(one) == Counter(other)


def test_the_pods_arrive_evenly_over_the_window() -> None:
    source = WorkloadSource("openb", scale_percent=5, window_ns=60 * SECOND)
    times = [step.at_ns for step in openb_workload(source, shipped_table()).steps]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] == 59 * SECOND
    assert all(at % SECOND == 0 for at in times)


def test_a_world_can_be_made_of_the_workload() -> None:
    source = WorkloadSource("openb", scale_percent=5)
    whole = with_workload(Scenario(name="small"), openb_workload(source, shipped_table()))
    made = SimulatedCluster(whole)
    made.advance(120 * SECOND)
    assert made.settled
    assert len(made.poll_watch()) > 407


def real(name: str) -> TraceText:
    """A real file of the trace, where there is one."""
    folder = os.environ.get("MUSTER_TRACES")
    path = Path(folder or "") / "openb" / name
    if not folder or not path.is_file():
        pytest.skip(f"MUSTER_TRACES does not name a folder that holds openb/{name}")
    return TraceText(name, path.read_text(encoding="utf-8"))


def test_the_shipped_counts_are_those_of_the_real_files() -> None:
    nodes, pods = real("openb_node_list_all_node.csv"), real("openb_pod_list_gpuspec33.csv")
    table = count_trace(nodes, pods)
    assert table == shipped_table()
    shipped = Path(__file__).parents[2] / "simulator/openb_counts.json"
    assert write_table(table) == shipped.read_bytes()


@pytest.mark.parametrize("name", ["default", "gpuspec33"])
def test_the_real_files_are_read_whole(name: str) -> None:
    made = openb_trace_workload(
        real("openb_node_list_gpu_node.csv"), real(f"openb_pod_list_{name}.csv")
    )
    named = sum(
        "volcano.sh/card.name" in section(step.manifest, "metadata", "annotations")
        for step in made.steps
        if isinstance(step, Apply)
    )
    assert (made.notes.nodes, made.notes.pods, made.notes.shares) == (1213, 8152, 3078)
    assert named == {"default": 0, "gpuspec33": 2388}[name]
    assert made.steps[-1].at_ns // SECOND < 12_902_960


def test_with_its_shares_pods_ask_for_thousandths_and_nodes_share_their_gpus() -> None:
    made = openb_trace_workload(
        text(NODES, "nodes.csv"), text(PODS), order="saturate", with_shares=True
    )
    found = manifests(made)
    assert section(found["n2"], "metadata", "labels")["muster.sh/gpu-sharing"] == "true"
    annotations = {name: section(found[name], "metadata", "annotations") for name in "abc"}
    assert annotations["a"]["alibabacloud.com/gpu-milli"] == "460"
    assert annotations["b"]["alibabacloud.com/gpu-milli"] == "1000"
    assert annotations["b"]["alibabacloud.com/gpu-count"] == "2"
    assert annotations["b"]["volcano.sh/card.name"] == "T4/milli|P100/milli"
    assert "alibabacloud.com/gpu-milli" not in annotations["c"]
    quota = section(found["ls"], "metadata", "annotations")["volcano.sh/card.quota"]
    assert quota == '{"P100/milli":2000}'
    assert made.notes.shares == 0
