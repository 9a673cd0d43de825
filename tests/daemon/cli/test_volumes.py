"""Commands about pods with claims: `fit` asks what admission asks, `why` says where volumes are."""

import json
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import muster

SCENARIO = ROOT / "tests/scenarios/volumes/volumes_lead_pods_to_nodes_that_reach_them.yaml"

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: asked}
spec:
  schedulerName: volcano
  containers: [{name: main, image: i, resources: {requests: {cpu: 1}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: CLAIM}}]
"""

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 1
  schedulerName: volcano
  volumes: [{mountPath: /data, volumeClaimName: CLAIM}]
  tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}}]
"""

EPHEMERAL = """\
apiVersion: v1
kind: Pod
metadata: {name: asked}
spec:
  schedulerName: volcano
  containers: [{name: main, image: i, resources: {requests: {cpu: 1}}}]
  volumes: [{name: CLAIM, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: CLAIM}}}}]
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the scenario."""
    path = tmp_path_factory.mktemp("volumes") / "log.db"
    assert muster("simulate", SCENARIO, "--log", f"sqlite:///{path}").exit_code == 0
    return path


@pytest.mark.parametrize(
    ("manifest", "claim", "answer"),
    [
        pytest.param(POD, "in-b", "", id="a pod with a bound claim"),
        pytest.param(POD, "nowhere", "ClaimMissing", id="a pod with a claim that does not exist"),
        pytest.param(POD, "odd", "VolumeNodeConflict", id="a pod whose volume no node can reach"),
        pytest.param(JOB, "in-b", "", id="a Volcano Job with a bound claim"),
        pytest.param(JOB, "nowhere", "ClaimMissing", id="a Volcano Job with a missing claim"),
        pytest.param(EPHEMERAL, "tmp", "ClassMissing", id="a pod with an ephemeral volume"),
    ],
)
def test_fit_asks_what_admission_asks(
    log: Path, tmp_path: Path, manifest: str, claim: str, answer: str
) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(manifest.replace("CLAIM", claim), encoding="utf-8")
    result = muster("fit", path, "--log", log, "--output", "json")
    [group] = json.loads(result.stdout)["pod_groups"]
    assert (group["waiting"] or {}).get("code", "") == answer
    assert result.exit_code == (1 if answer else 0)


def test_why_says_on_which_node_a_local_volume_keeps_its_pods(log: Path) -> None:
    told = muster("why", "Pod/default/apart", "--log", log).stdout
    assert "NO  volumes: no node can reach all volumes: claim default/in-a: zone NotIn b" in told
    assert "n1: volume of claim default/disk is elsewhere: kubernetes.io/hostname n3" in told


def test_why_counts_the_nodes_that_volumes_exclude_while_a_pod_waits_for_room(
    tmp_path: Path,
) -> None:
    scenario, log = tmp_path / "scenario.yaml", tmp_path / "log.db"
    text = SCENARIO.read_text(encoding="utf-8").partition("steps:")[0]
    text += """steps:
  - at: 1s
    apply:
      - kind: Pod
        metadata: {name: large}
        spec:
          containers: [{resources: {requests: {cpu: 7}}}]
          volumes: [{name: v, persistentVolumeClaim: {claimName: disk}}]
"""
    scenario.write_text(text + "until: 5s\n", encoding="utf-8")
    assert muster("simulate", scenario, "--log", f"sqlite:///{log}").exit_code == 0
    told = muster("why", "Pod/default/large", "--log", log).stdout
    assert (
        "ok  volumes: claim default/disk is bound to pv-local, a local volume: its pods run only on"
        " kubernetes.io/hostname n3"
    ) in told
    assert "2  node(s) didn't match PersistentVolume's node affinity" in told


def test_a_redacted_log_of_claims_replays_and_names_none(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "redacted.muster"
    made = muster("log", "export", log, "--file", bundle, "--redact", "all")
    assert "every decision is made again under pseudonyms" in made.output
    assert muster("replay", bundle).exit_code == 0
    told = muster("tell", bundle).stdout
    assert "PersistentVolumeClaim default/" in told
    assert not [
        name for name in ("pv-local", "pv-a", "in-a", "in-b", "disk") if name in told.split()
    ]
