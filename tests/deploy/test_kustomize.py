"""The manifests, as kustomize puts them together."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.address import parse_address
from daemon.cli.run import run
from daemon.cli.why import SERVICE
from daemon.cluster.client.calls import SHADOW_CALLS
from daemon.cluster.client.rbac import cluster_rules, own_rules
from daemon.settings import read_settings
from tests.checkout import ROOT
from tests.deploy.kustomizing import FOLDER, WHOLE, Manifest, composed, one, shipped

ELSEWHERE = "elsewhere"


def container(manifests: list[Manifest]) -> dict[str, Any]:
    """The one container of the Deployment."""
    (found,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_kustomize_renders_the_folder_without_a_warning(name: str) -> None:
    assert shipped(name)


@pytest.mark.parametrize("base", ["base", "overlays/postgres"])
def test_the_components_can_be_added_to_either(base: str, tmp_path: Path) -> None:
    kinds = {manifest["kind"] for manifest in composed(tmp_path, base)}
    assert kinds >= {"Deployment", "ServiceMonitor", "PrometheusRule", "Service"}


def test_another_namespace_reaches_every_reference_to_it(tmp_path: Path) -> None:
    text = yaml.safe_dump_all(composed(tmp_path, "overlays/postgres", ELSEWHERE))
    assert "muster-system" not in text.replace("app.kubernetes.io", "")


def test_a_sqlite_log_has_one_replica_and_never_two_at_a_time() -> None:
    """SQLite takes one writer: an update stops the old pod before it starts the new one."""
    spec = one(shipped("base"), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_on_postgresql_there_are_two_replicas_and_no_volume_for_a_log() -> None:
    """A standby keeps its state warm, so that it can follow at once."""
    manifests = shipped("overlays/postgres")
    spec = one(manifests, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert [manifest for manifest in manifests if manifest["kind"] == "PersistentVolumeClaim"] == []
    assert {volume["name"] for volume in spec["template"]["spec"]["volumes"]} == {
        "settings",
        "scratch",
    }


def test_the_url_of_the_database_comes_from_a_secret_that_is_not_shipped() -> None:
    manifests = shipped("overlays/postgres")
    (variable,) = container(manifests)["env"]
    assert variable == {
        "name": "MUSTER_LOG",
        "valueFrom": {"secretKeyRef": {"name": "muster-log", "key": "url"}},
    }
    assert [manifest for manifest in manifests if manifest["kind"] == "Secret"] == []


@pytest.mark.parametrize("name", ["base", "overlays/postgres"])
def test_every_volume_is_mounted_and_every_mount_has_its_volume(name: str) -> None:
    volumes = one(shipped(name), "Deployment")["spec"]["template"]["spec"]["volumes"]
    mounts = container(shipped(name))["volumeMounts"]
    assert {volume["name"] for volume in volumes} == {mount["name"] for mount in mounts}


def test_the_settings_are_read_where_they_are_mounted() -> None:
    (settings,) = (m for m in shipped("base") if m["kind"] == "ConfigMap")
    (mount,) = (m for m in container(shipped("base"))["volumeMounts"] if m["name"] == "settings")
    subcommand, option, path = container(shipped("base"))["args"]
    assert (subcommand, option) == ("run", "--config")
    assert path == f"{mount['mountPath']}/muster.yaml"
    assert set(settings["data"]) == {"muster.yaml", "policy.yaml"}
    assert option in {name for parameter in run.params for name in parameter.opts}


def test_probes_ask_the_port_that_the_settings_name() -> None:
    address = parse_address(read_settings(FOLDER / "base/muster.yaml").listen)
    (port,) = container(shipped("base"))["ports"]
    assert port["containerPort"] == address.port
    # A kubelet asks from outside the pod.
    assert address.host == "0.0.0.0"  # noqa: S104
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container(shipped("base"))[probe]["httpGet"]["port"] == port["name"]


def test_the_network_policy_admits_only_prometheus_to_its_port(tmp_path: Path) -> None:
    pods = one(shipped("base"), "Deployment")["spec"]["template"]["metadata"]["labels"]
    closed = one(shipped("base"), "NetworkPolicy")["spec"]
    assert (closed["policyTypes"], closed.get("ingress", [])) == (["Ingress"], [])
    opened = one(composed(tmp_path, "base"), "NetworkPolicy", "muster-metrics")["spec"]
    for spec in (closed, opened):
        assert spec["podSelector"]["matchLabels"].items() <= pods.items()
    (rule,) = opened["ingress"]
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    (port,) = container(shipped("base"))["ports"]
    assert [one_port["port"] for one_port in rule["ports"]] == [port["name"]]


def test_tenants_reach_the_service_that_the_command_asks_and_no_other(tmp_path: Path) -> None:
    manifests = composed(tmp_path, "base", components=("tenants",))
    namespace, _, proxied = SERVICE.partition("/")
    role = next(
        one
        for one in manifests
        if one["kind"] == "Role" and one["metadata"]["name"] == proxied.split(":")[1]
    )
    assert role["metadata"]["namespace"] == namespace
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [proxied],
            "verbs": ["get"],
        }
    ]
    (port,) = one(manifests, "Service")["spec"]["ports"]
    assert f"https:{one(manifests, 'Service')['metadata']['name']}:{port['name']}" == proxied
    ports = {found["name"]: found["containerPort"] for found in container(manifests)["ports"]}
    assert ports[port["targetPort"]] == 8443
    mounts = [found["mountPath"] for found in container(manifests)["volumeMounts"]]
    assert "/etc/muster/tls" in mounts


def test_a_pod_is_given_longer_to_end_than_the_daemon_takes() -> None:
    spec = one(shipped("base"), "Deployment")["spec"]["template"]["spec"]
    settings = read_settings(FOLDER / "base/muster.yaml")
    assert spec["terminationGracePeriodSeconds"] > settings.grace_seconds


def test_the_image_has_the_version_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = (line.split('"')[1] for line in text.splitlines() if line.startswith("version = "))
    assert container(shipped("base"))["image"].endswith(f"/muster:{version}")


def test_the_roles_are_bound_to_the_account_of_the_pods() -> None:
    manifests = shipped("base")
    spec = one(manifests, "Deployment")["spec"]["template"]["spec"]
    account = one(manifests, "ServiceAccount")["metadata"]
    assert spec["serviceAccountName"] == account["name"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = one(manifests, kind)["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])


def test_what_kustomize_renders_holds_the_very_rules_of_the_table() -> None:
    """It follows names from object to object, and a Role's may look like one of them."""
    found = [one(shipped("base"), kind)["rules"] for kind in ("ClusterRole", "Role")]
    assert found == [
        [rule.document() for rule in rules] for rules in (cluster_rules(), own_rules())
    ]


def test_leases_and_bindings_are_lifted_out_of_the_common_share() -> None:
    """K12.3: leases and bindings have a level of their own."""
    resources = {
        resource
        for manifest in shipped("flow-control")
        for rule in manifest["spec"].get("rules", [])
        for resources in rule["resourceRules"]
        for resource in resources["resources"]
    }
    assert resources >= {"leases", "pods/binding"}


def test_a_shadow_may_read_and_nothing_else(tmp_path: Path) -> None:
    manifests = shipped("overlays/shadow")
    roles = [manifest for manifest in manifests if manifest["kind"] in ("ClusterRole", "Role")]
    assert [role["rules"] for role in roles] == [
        [rule.document() for rule in cluster_rules(SHADOW_CALLS)]
    ]
    verbs = {verb for rule in roles[0]["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    assert one(manifests, "Deployment")["spec"]["replicas"] == 1
    path = tmp_path / "muster.yaml"
    path.write_text(one(manifests, "ConfigMap")["data"]["muster.yaml"], encoding="utf-8")
    assert read_settings(path).shadow_of == ("volcano", "default-scheduler")
