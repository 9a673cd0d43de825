"""A cluster is scheduled by a policy that keeps quotas or says that there are none."""

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from daemon.cli.inputs import read_cluster_policy, read_policy
from daemon.health import WARNINGS, Health
from daemon.policy_file import PolicyFile
from events.daemon import PolicyChanged
from events.errors import MusterError, PolicyError
from features.table import FEATURES
from projections.plugin import Quota
from projections.policy.policy import BUILT_IN, PLAIN, parse_policy
from tests.checkout import ROOT
from tests.daemon.cli.builders import muster

VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
GANG = '"tiers": [{"plugins": [{"name": "gang"}]}]'
REFUSED = {
    "an empty mapping": ("{}", "an empty document is not a policy: it has neither actions nor"),
    "a Pod": (
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}",
        "a manifest of kind Pod is not a policy: it has neither actions nor tiers",
    ),
    "a List": ("{kind: List, items: []}", "a manifest of kind List is not a policy"),
    "other keys": (
        "{a: 1, b: 2, c: 3, d: 4, e: 5, f: 6}",
        "a document with the keys a, b, c, d, e, ... is not a policy",
    ),
    "a ConfigMap of something else": (
        "{kind: ConfigMap, data: {a.conf: 'x: 1', b: text}}",
        "a ConfigMap without a policy: it must be under data.volcano-scheduler.conf; "
        "the keys of data are: a.conf, b",
    ),
    "an empty ConfigMap": ("{kind: ConfigMap}", "the keys of data are: none"),
    "a ConfigMap with two policies": (
        "{kind: ConfigMap, data: {a: 'tiers: []', b: 'tiers: []'}}",
        "the keys of data are: a, b",
    ),
    "a ConfigMap with a policy without quotas": (
        "{kind: ConfigMap, data: {volcano-scheduler.conf: 'actions: allocate'}}",
        "no plugin keeps quotas",
    ),
    "a ConfigMap with a broken policy": (
        "{kind: ConfigMap, data: {volcano-scheduler.conf: 'actions: ['}}",
        "data.volcano-scheduler.conf:2: not YAML",
    ),
    "no tiers": ("tiers: []", "no plugin keeps quotas, so that every queue would be unlimited"),
    "tiers of nothing": ("tiers:", "no plugin keeps quotas"),
    "only actions": ("actions: allocate", "Name one of capacity, capacity-card, proportion"),
    "only an order": (f"{{{GANG}}}", "or write `quotas: none`, or give --policy plain"),
    "a quota plugin that is misspelt": (
        "tiers: [{plugins: [{name: capcity}]}]",
        "every queue would be unlimited; not known here: capcity.",
    ),
    "other quotas": (f"{{quotas: some, {GANG}}}", "no plugin keeps quotas"),
    "a contradiction": (
        "quotas: none\ntiers: [{plugins: [{name: capacity}]}]",
        "quotas: none contradicts the plugin capacity",
    ),
    "pools of Volcano's kind": (
        "pools: [{name: default, decider: session}]",
        "no plugin keeps quotas",
    ),
}
TAKEN = {
    "Volcano's": VOLCANO,
    "no quotas on purpose": f"{{quotas: none, {GANG}}}",
    "no quotas and no tiers": "{quotas: none, actions: allocate}",
    "pools of Determined's kind": "pools: [{name: default, decider: priority, slots: [cpu]}]",
    "the built-in one": BUILT_IN.decode(),
    "plain": PLAIN.decode(),
}


def config_map(key: str, text: str = VOLCANO) -> str:
    """A manifest as `kubectl get -o yaml` prints it."""
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return msgspec.json.encode({**manifest, "data": {"other": "a: 1", key: text}}).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for a policy."""
    return tmp_path / "policy.yaml"


def read(path: Path) -> PolicyChanged:
    content = read_cluster_policy(path, tells=False)
    return PolicyChanged(source=path.name, policy=msgspec.Raw(content))


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_keeps_no_quotas_unasked_is_refused_with_what_it_is(
    path: Path, text: str, reason: str
) -> None:
    path.write_text(text)
    with pytest.raises(MusterError) as caught:
        read_cluster_policy(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_a_policy_with_quotas_or_expressly_without_is_taken(path: Path, text: str) -> None:
    path.write_text(text)
    assert parse_policy(read_cluster_policy(path), FEATURES.policy_table)[1] == ()


@pytest.mark.parametrize(
    "key", ["volcano-scheduler.conf", "policy.yaml", "volcano-scheduler-ci.conf"]
)
def test_the_policy_in_a_config_map_is_taken_from_it(path: Path, key: str) -> None:
    path.write_text(VOLCANO)
    plain = read_cluster_policy(path)
    path.write_text(config_map(key))
    assert read_cluster_policy(path) == plain
    assert read_policy(path) == plain


def test_questions_take_a_policy_without_quotas(path: Path) -> None:
    path.write_text("tiers: []")
    assert read_policy(path) == b'{"tiers":[]}'


def test_a_file_that_becomes_a_policy_without_quotas_leaves_the_old_one_in_force(
    path: Path,
) -> None:
    path.write_text(VOLCANO)
    file = PolicyFile(path, read)
    health = Health(lambda: 0)
    health.clear("start")
    path.write_text("actions: allocate\n")
    with capture_logs() as said, health.asking(file):
        assert [file.look() for _ in range(3)] == [None] * 3
        assert "no plugin keeps quotas" in health.reasons["policy"]
        assert health.is_ready
        assert "policy" in WARNINGS
        path.write_text(f"quotas: none\n{VOLCANO.replace('  - name: proportion', '')}")
        found = [one for _ in range(3) if (one := file.look()) is not None]
        assert len(found) == 1
        assert health.reasons == {}
    assert [one["event"] for one in said] == ["the policy stays as it was"]


def test_run_ends_before_anything_is_written(tmp_path: Path, path: Path) -> None:
    path.write_text("{apiVersion: v1, kind: Pod}")
    log = tmp_path / "l.db"
    result = muster("run", "--policy", str(path), "--log", str(log), "--listen", "")
    assert result.exit_code == 2
    assert f"{path}: a manifest of kind Pod is not a policy" in result.stderr
    assert not log.exists()


def test_a_policy_of_the_settings_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "nothing.yaml").write_text("{}")
    settings = tmp_path / "muster.yaml"
    settings.write_text(f"policy: nothing.yaml\nlog: {tmp_path}/l.db\nlisten: ''\n")
    result = muster("run", "--config", str(settings))
    assert result.exit_code == 2
    assert "an empty document is not a policy" in result.stderr


def test_plain_is_the_built_in_policy_without_its_quotas() -> None:
    built_in, plain = (parse_policy(one, FEATURES.policy_table)[0] for one in (BUILT_IN, PLAIN))
    kept = [
        one
        for one in built_in.plugins
        if not issubclass(FEATURES.policy_table.plugins[one.name], Quota)
    ]
    assert list(plain.plugins) == kept
    assert plain.actions == built_in.actions


def test_the_chart_knows_every_plugin_that_keeps_quotas() -> None:
    names = sorted(
        name for name, one in FEATURES.policy_table.plugins.items() if issubclass(one, Quota)
    )
    listed = " ".join(f'"{name}"' for name in names)
    template = ROOT / "deploy/helm/muster/templates/_names.tpl"
    assert f"(list {listed})" in template.read_text(encoding="utf-8")


def test_an_unknown_value_of_quotas_is_named_and_skipped() -> None:
    policy, warned = parse_policy(b'{"quotas": "no"}', FEATURES.policy_table)
    assert policy.actions
    assert [(one.path, one.message) for one in warned] == [
        ("quotas", "only `none` is known: skipped")
    ]
    with pytest.raises(PolicyError, match="tiers"):
        parse_policy(b'{"quotas": "none", "tiers": 7}', FEATURES.policy_table)
