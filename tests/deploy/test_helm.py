"""The Helm chart: it makes what kustomize makes, and says what is wrong with its values."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.cluster.client.calls import SHADOW_CALLS
from daemon.cluster.client.rbac import cluster_rules, namespace_rules, own_rules
from daemon.settings import read_settings
from tests.checkout import ROOT
from tests.deploy import charting, kustomizing
from tests.deploy.charting import CHART, helm, options, rendered
from tests.deploy.kustomizing import Manifest, composed, one

ON_POSTGRESQL = {"log.existingSecret": "muster-log"}


def by_name(manifests: list[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    """Objects by kind, namespace and name, without what only Helm or only kustomize writes."""
    found = {}
    for manifest in manifests:
        if manifest["kind"] == "Namespace":
            continue  # `helm install --create-namespace` makes it.
        bare = charting.plain(manifest)
        text = yaml.safe_dump(bare)
        # The digest in the name of a ConfigMap; a release has a checksum on its pods instead.
        bare = yaml.safe_load(re.sub(r"\b(muster-settings)-[a-z0-9]{10}\b", r"\1", text))
        bare.pop("imagePullPolicy", None)
        if bare["kind"] == "ConfigMap":
            bare["data"] = {key: yaml.safe_load(one) for key, one in bare["data"].items()}
        if bare["kind"] == "Deployment":
            for container in bare["spec"]["template"]["spec"]["containers"]:
                container.pop("imagePullPolicy", None)
        metadata = bare["metadata"]
        found[bare["kind"], metadata.get("namespace", ""), metadata["name"]] = bare
    return found


def test_the_chart_is_sound() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


def test_the_chart_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


@pytest.mark.parametrize(
    ("values", "folder"), [({}, "base"), (ON_POSTGRESQL, "overlays/postgres")], ids=str
)
def test_a_release_is_what_kustomize_makes(values: dict[str, Any], folder: str) -> None:
    """Deployment, roles, settings, volume, budget, policies: each field of each object."""
    assert by_name(rendered(values)) == by_name(kustomizing.shipped(folder))


@pytest.mark.parametrize(
    ("part", "folder"),
    [("ascend", "ascend"), ("flowControl", "flow-control"), ("crds", "crds")],
)
def test_a_part_of_a_release_is_the_folder_of_that_name(part: str, folder: str) -> None:
    without, whole = by_name(charting.shipped()), by_name(charting.shipped(part))
    added = {key: one for key, one in whole.items() if key not in without}
    found = by_name(kustomizing.shipped(folder))
    for manifest in (*added.values(), *found.values()):
        manifest["metadata"].pop("labels", None)
    assert added == found


def test_tenants_are_answered_as_with_the_component_of_kustomize(tmp_path: Path) -> None:
    found = by_name(charting.shipped("tenants"))
    wanted = by_name(composed(tmp_path, "base", components=("tenants",)))
    [key] = [key for key in found if key[0] == "ConfigMap"]
    settings, base = found.pop(key)["data"]["muster.yaml"], wanted.pop(key)["data"]["muster.yaml"]
    assert settings == {
        **base,
        "tenants_listen": "0.0.0.0:8443",
        "tenants_certificate_file": "tls/tls.crt",
        "tenants_key_file": "tls/tls.key",
    }
    for manifest in (*found.values(), *wanted.values()):
        manifest["metadata"].pop("labels", None)
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            [container] = pod["containers"]
            for several in (container["ports"], container["volumeMounts"], pod["volumes"]):
                several.sort(key=lambda one: str(one["name"]))
    assert found == wanted


def test_the_roles_of_operators_are_those_of_kustomize_with_the_subjects_of_the_values() -> None:
    team = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team-a"}
    values = {"queueOperators.create": True, "queueOperators.subjects": [team]}
    found = by_name(rendered(values))
    wanted = by_name(kustomizing.shipped("queue-operators"))
    wanted["ClusterRoleBinding", "", "muster-queue-operators"]["subjects"] = [team]
    assert {key: found[key] for key in wanted} == wanted


def test_monitoring_is_the_component_of_kustomize(tmp_path: Path) -> None:
    found, wanted = by_name(charting.shipped("monitoring")), by_name(composed(tmp_path, "base"))
    for manifest in (*found.values(), *wanted.values()):
        if manifest["kind"] != "Service":  # The ServiceMonitor selects it by this label.
            manifest["metadata"].get("labels", {}).pop("app.kubernetes.io/name", None)
    assert {key: charting.plain(one) for key, one in found.items()} == {
        key: charting.plain(one) for key, one in wanted.items()
    }


def test_the_rules_of_a_release_are_those_of_the_table_of_calls() -> None:
    manifests = charting.shipped("ascend")
    own = [
        m
        for m in manifests
        if m["kind"] == "Role" and m["metadata"]["namespace"] == "muster-system"
    ]
    assert one(manifests, "ClusterRole")["rules"] == [rule.document() for rule in cluster_rules()]
    assert [role["rules"] for role in own] == [[rule.document() for rule in own_rules()]]
    for namespace, rules in namespace_rules().items():
        (role,) = (
            m for m in manifests if m["kind"] == "Role" and m["metadata"]["namespace"] == namespace
        )
        assert role["rules"] == [rule.document() for rule in rules]


@pytest.mark.parametrize("values", [{}, ON_POSTGRESQL], ids=str)
def test_a_release_of_a_shadow_may_read_and_nothing_else(values: dict[str, Any]) -> None:
    shadow = {"settings": {"shadow_of": ["volcano"]}, "ascend.create": True}
    manifests = rendered({**values, **shadow})
    roles = [manifest for manifest in manifests if manifest["kind"] in ("ClusterRole", "Role")]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {
        "list",
        "watch",
    }
    assert one(manifests, "ClusterRole")["rules"] == [
        rule.document() for rule in cluster_rules(SHADOW_CALLS)
    ]
    assert one(manifests, "Deployment")["spec"]["replicas"] == 1
    assert not [m for m in manifests if m["kind"] == "PodDisruptionBudget"]


def test_another_release_in_another_namespace_shares_no_name_with_the_first() -> None:
    switches = {f"{part}.create": True for part in ("monitoring", "flowControl", "ascend")}
    text = yaml.safe_dump_all(rendered(switches, release="second", namespace="elsewhere"))
    assert "muster-system" not in text
    names = {
        (m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"])
        for m in rendered(switches, release="second", namespace="elsewhere")
    }
    first = {
        (m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"])
        for m in charting.shipped("monitoring", "ascend")
    }
    assert names & first == set()
    schema = one(rendered(switches, release="second"), "FlowSchema", "muster-lease")
    assert schema["spec"]["rules"][0]["subjects"][0]["serviceAccount"]["name"] == "second-muster"


def test_settings_and_policy_of_the_values_reach_the_daemon_and_what_depends_on_them(
    tmp_path: Path,
) -> None:
    plugins = [{"name": "gang"}, {"name": "capacity"}]
    policy = {"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}]}
    settings = {"grace_seconds": 50, "listen": "0.0.0.0:9090", "lease_name": "volcano"}
    manifests = rendered({"settings": settings, "policy": policy, "monitoring.create": True})
    data = one(manifests, "ConfigMap", "muster-settings")["data"]
    assert yaml.safe_load(data["policy.yaml"]) == policy
    path = tmp_path / "muster.yaml"
    path.write_text(data["muster.yaml"], encoding="utf-8")
    read = read_settings(path)
    assert (read.grace_seconds, read.scheduler_names) == (50, ("muster",))
    spec = one(manifests, "Deployment")["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] > 50
    assert spec["containers"][0]["ports"][0]["containerPort"] == 9090
    assert one(manifests, "Service")["spec"]["ports"][0]["port"] == 9090
    named = [
        rule["resourceNames"] for rule in one(manifests, "Role")["rules"] if "resourceNames" in rule
    ]
    assert named == [["volcano"]]


def test_a_policy_of_pools_or_of_a_config_map_is_taken() -> None:
    pools = {"pools": [{"name": "default", "decider": "priority", "slots": ["cpu"]}]}
    stock = {"actions": "allocate", "tiers": [{"plugins": [{"name": "proportion"}]}]}
    of_volcano = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": json.dumps(stock)}}
    for values, policy in ((pools, pools), (of_volcano, stock)):
        data = one(rendered({"policy": values}), "ConfigMap", "muster-settings")["data"]
        assert yaml.safe_load(data["policy.yaml"]) == policy


def test_a_changed_policy_restarts_the_pods() -> None:
    changed = rendered({"policy": {"actions": "allocate", "quotas": "none"}})
    sums = {
        one(manifests, "Deployment")["spec"]["template"]["metadata"]["annotations"][
            "checksum/settings"
        ]
        for manifests in (charting.shipped(), changed)
    }
    assert len(sums) == 2


def test_an_image_by_digest_has_no_tag_and_a_placement_is_the_operator_s() -> None:
    digest = f"sha256:{'0' * 64}"
    values = {
        "image.digest": digest,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
        **ON_POSTGRESQL,
        "affinity": {"nodeAffinity": {}},
    }
    spec = one(rendered(values), "Deployment")["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == f"registry.example/muster@{digest}"
    assert spec["nodeSelector"] == values["nodeSelector"]
    assert spec["tolerations"] == values["tolerations"]
    assert spec["affinity"] == {"nodeAffinity": {}}


def test_alerts_lead_to_the_place_where_the_pages_are_published() -> None:
    values = {"monitoring.create": True, "monitoring.runbooks": "https://wiki.your.example/m/"}
    groups = one(rendered(values), "PrometheusRule")["spec"]["groups"]
    urls = [
        rule["annotations"]["runbook_url"]
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert {url.partition("docs/")[0] for url in urls} == {"https://wiki.your.example/m/"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicas": 3}, "replicas"),
        ({"log.replicas": 0}, "replicas"),
        ({"image.digest": "latest"}, "digest"),
        ({"monitoring.enabled": True}, "enabled"),
        ({"policy": "policy.yaml"}, "policy"),
        ({"policy": {"kind": "Pod", "spec": {}}}, "a manifest of kind Pod is not a policy"),
        ({"policy": {"tier": []}}, "a document with the keys tier is not a policy"),
        ({"policy": {"kind": "ConfigMap", "data": {"a": "b"}}}, "a ConfigMap without a policy"),
        ({"policy": {"tiers": []}}, "no plugin keeps quotas"),
        ({"policy": {"actions": "allocate"}}, "no plugin keeps quotas"),
        ({"policy": {"tiers": [{"plugins": [{"name": "gang"}]}]}}, "no plugin keeps quotas"),
    ],
    ids=str,
)
def test_a_value_that_means_nothing_is_an_error_that_names_it(
    values: dict[str, Any], named: str
) -> None:
    done = helm("template", "muster", CHART, "--kube-version", "1.34.0", *options(values))
    assert done.returncode != 0
    assert named in done.stderr


def test_an_api_server_that_is_too_old_is_refused() -> None:
    done = helm("template", "muster", CHART, "--kube-version", "1.29.9")
    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.29.9" in done.stderr


def test_the_values_on_the_page_of_deploying_make_what_it_says() -> None:
    page = (ROOT / "docs/deploying.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n# values.yaml\n(.*?)```", page, re.DOTALL)
    values = yaml.safe_load(text)
    manifests = rendered(values)
    assert one(manifests, "Deployment")["spec"]["replicas"] == 2
    image = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith("registry.your.example/muster:")
    data = one(manifests, "ConfigMap", "muster-settings")["data"]
    assert yaml.safe_load(data["policy.yaml"]) == values["policy"]
    assert one(manifests, "ServiceMonitor")
    switches = set(re.findall(r"`(\w+)\.create`", page))
    shipped = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert switches == {
        key for key, one in shipped.items() if isinstance(one, dict) and "create" in one
    } - {"networkPolicy"}
