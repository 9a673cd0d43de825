"""What the simulated controllers of Volcano write as the minimum of a pod group (volcano A.7)."""

from events.normalize import JsonObject
from simulator.quota_usage import min_resources


def test_a_pod_counts_under_its_resources_and_under_the_names_of_quotas() -> None:
    spec: JsonObject = {
        "containers": [
            {
                "resources": {
                    "requests": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"},
                    "limits": {"cpu": 1, "memory": "2Gi", "nvidia.com/gpu": "1"},
                }
            }
        ]
    }
    assert min_resources([(spec, 1)]) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "100m",
        "requests.cpu": "100m",
        "limits.cpu": "1",
        "memory": str(1 << 30),
        "requests.memory": str(1 << 30),
        "limits.memory": str(2 << 30),
        "nvidia.com/gpu": "1",
        "requests.nvidia.com/gpu": "1",
    }


def test_pods_of_several_specs_are_summed() -> None:
    small: JsonObject = {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]}
    pages: JsonObject = {"containers": [{"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}]}
    assert min_resources([(small, 3), (pages, 2)]) == {
        "count/pods": "5",
        "pods": "5",
        "cpu": "750m",
        "requests.cpu": "750m",
        "hugepages-2Mi": str(4 << 20),
        "requests.hugepages-2Mi": str(4 << 20),
    }


def test_limits_count_init_containers_sidecars_overhead_and_the_pod_itself() -> None:
    spec: JsonObject = {
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"limits": {"cpu": "100m"}}},
            {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}},
        ],
        "containers": [{"resources": {"limits": {"cpu": 1}, "requests": {"cpu": "500m"}}}],
        "resources": {"limits": {"memory": "3Gi"}},
        "overhead": {"cpu": "50m", "ephemeral-storage": "1Gi"},
    }
    written = min_resources([(spec, 1)])
    assert written["limits.cpu"] == "2150m"
    assert written["limits.memory"] == str(3 << 30)
    assert "limits.ephemeral-storage" not in written


def test_resources_of_kubernetes_itself_have_no_quota() -> None:
    spec: JsonObject = {
        "containers": [{"resources": {"requests": {"attachable-volumes-csi": 1, "unknown": 2}}}]
    }
    assert min_resources([(spec, 1)]) == {"count/pods": "1", "pods": "1"}
