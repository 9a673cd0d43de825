"""A log under pseudonyms: the same decisions, none of the names."""

import json
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.record import Record
from events.standing.kinds import decode_standing, encode_standing
from events.standing.pods import PodSelection, PodStands
from events.standing.work import (
    AntiAffinityStands,
    ChangedPodsStand,
    LabelRequirement,
    WakeupsStand,
)
from replay.log_replay import Divergence, Replay
from replay.pseudonyms import WELL_KNOWN, Pseudonyms
from replay.redacted_log import RedactedLog
from replay.redaction import ALL, Redaction
from simulator.scenario import parse_scenario
from tests.scenarios.play import FILES, name_of, scenario_of

KEY = b"k" * 32
HASHED = "pools/"
"""Pools order equal nodes by a hash of their names, which no pseudonym keeps."""
VOLUMES = [path for path in FILES if name_of(path).startswith("volumes/")]
"""Names of claims are made of those of pods, and values of labels are made of names of zones."""
TENANTS = [path for path in FILES if name_of(path).startswith("tenants/")]
"""Names of overrides are made of those of pod groups, and rules name namespaces and their labels."""
SAMPLE = sorted(
    {
        *[path for path in FILES if not name_of(path).startswith(HASHED)][::9],
        *VOLUMES,
        *TENANTS,
    }
)

TEAMS = """
scenario: two teams share a queue tree, and one is refused
policy: {actions: "enqueue, allocate, backfill", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]}
cluster:
  - {kind: Namespace, metadata: {name: falcon-project, labels: {cost-center: cc-4711}}}
  - {kind: Queue, metadata: {name: falcon-queue}, spec: {capability: {cpu: 4}}}
  - kind: Node
    metadata: {name: "rack7-host-{i}", labels: {acme.com/room: basement, nvidia.com/gpu.product: H200}}
    status: {allocatable: {cpu: "4", nvidia.com/gpu: "8"}, images: [{names: ["registry.acme.com/secret/model:v3"], sizeBytes: 900000000}]}
    count: 2
  - kind: Pod
    metadata:
      name: trainer-1
      namespace: falcon-project
      labels: {project: falcon}
      annotations: {scheduling.volcano.sh/queue-name: falcon-queue, acme.com/owner: alice.smith}
    spec:
      nodeSelector: {acme.com/room: basement}
      containers: [{name: falconer, image: "registry.acme.com/secret/model:v3", resources: {requests: {cpu: 3}}}]
  - kind: Pod
    metadata: {name: trainer-2, namespace: falcon-project, annotations: {scheduling.volcano.sh/queue-name: falcon-queue}}
    spec: {containers: [{resources: {requests: {cpu: 3}}}]}
until: 5s
"""
CLAIMS = """
scenario: a pod with an ephemeral volume waits for its claim, and another has a bound claim
cluster:
  - {kind: Namespace, metadata: {name: falcon-project}}
  - {kind: Node, metadata: {name: rack7-host}, status: {allocatable: {cpu: 8}}}
  - kind: PersistentVolume
    metadata: {name: falcon-volume}
    spec: {accessModes: [ReadWriteOnce], claimRef: {kind: PersistentVolumeClaim, namespace: falcon-project, name: falcon-7}}
  - kind: PersistentVolumeClaim
    metadata: {name: falcon-7, namespace: falcon-project, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
    spec: {accessModes: [ReadWriteOnce], volumeName: falcon-volume}
  - kind: Pod
    metadata: {name: trainer, namespace: falcon-project}
    spec: {containers: [{}], volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {}}}]}
  - kind: Pod
    metadata: {name: trainer-b, namespace: falcon-project}
    spec: {containers: [{}], volumes: [{name: data, persistentVolumeClaim: {claimName: falcon-7}}]}
until: 5s
"""
SECRETS = (
    *("falcon", "rack7", "cc-4711", "cost-center", "acme", "basement", "registry", "secret"),
    *("model", "v3", "trainer", "alice", "project"),
)


class Redacted(Struct):
    """A log under pseudonyms, and what a replay of it found."""

    records: list[tuple[Record, bytes | None]]
    divergence: Divergence | None
    different: int

    @property
    def text(self) -> str:
        """Everything in it."""
        parts = [
            f"{one.subject} {one.body.decode()} {(content or b'').decode()}"
            for one, content in self.records
        ]
        return "\n".join(parts)


async def entries_of(text: str) -> list[Entry]:
    """The log of a scenario."""
    log = MemoryLog()
    await simulate(parse_scenario(text, "test"), log, with_views=False)
    return [entry async for some in log.read() for entry in some]


def redacted(entries: list[Entry], key: bytes = KEY, *kinds: str) -> Redacted:
    """A log under pseudonyms, replayed."""
    chosen = frozenset(kinds or (ALL,))
    names = Redaction(chosen)
    for one in entries:
        kind = one.record.subject.partition("/")[0]
        names.subject(one.record.subject)
        names.body(one.record.kind, one.record.body)
        if one.content is not None:
            names.content(kind, one.content)
    redaction = Redaction(chosen, Pseudonyms(key, names.texts, names.namespaces))
    redaction.node_names = names.node_names
    redaction.ephemeral_claims = names.ephemeral_claims
    redaction.overrides = names.overrides
    log, replay = RedactedLog(redaction), Replay()
    done = [log.take(one.record, one.content) for one in entries]
    found: Divergence | None = None
    for record, content in done:
        found = found or replay.take(record, content)
    return Redacted(done, found or replay.finish(), log.different)


@pytest.mark.parametrize("path", SAMPLE, ids=name_of)
async def test_a_redacted_log_replays_to_the_same_decisions(path: Path) -> None:
    log = MemoryLog()
    await simulate(scenario_of(path), log, with_views=False)
    entries = [entry async for some in log.read() for entry in some]
    found = redacted(entries)
    assert (found.divergence, found.different) == (None, 0)
    before = [(one.record.kind, one.record.position, one.record.cause) for one in entries]
    assert [(one.kind, one.position, one.cause) for one, _ in found.records] == before


async def test_a_decision_by_a_hash_of_names_stays_as_it_was_and_is_counted() -> None:
    """The limit that docs/log.md states: a replay diverges where the first of them is, and nowhere before."""
    name = "pools/of_nodes_with_equal_scores_a_hash_of_task_and_node_decides"
    (path,) = [one for one in FILES if name_of(one) == name]
    found = redacted(await entries_of(path.read_text(encoding="utf-8")))
    assert found.different > 0
    assert found.divergence is not None
    assert found.divergence.recorded is not None
    assert found.divergence.recorded.kind == "gang_bind_decided.v1"


async def test_pods_alone_can_be_redacted() -> None:
    found = redacted(await entries_of(TEAMS), KEY, "Pod")
    assert (found.divergence, found.different) == (None, 0)
    assert "trainer" not in found.text
    assert "rack7-host-1" in found.text


async def test_no_name_label_annotation_or_image_is_left() -> None:
    entries = await entries_of(TEAMS)
    found = redacted(entries)
    assert (found.divergence, found.different) == (None, 0)
    assert [one for one in SECRETS if one in found.text] == []
    # What decisions are computed from is still there.
    assert "nvidia.com/gpu.product" in found.text
    assert "H200" in found.text
    assert "pod_group_unschedulable.v1" in [one.kind for one, _ in found.records]


async def test_names_of_claims_are_replaced_in_objects_and_decisions_alike() -> None:
    entries = await entries_of(CLAIMS)
    found = redacted(entries)
    assert (found.divergence, found.different) == (None, 0)
    assert [one for one in ("falcon", "trainer", "scratch", "rack7") if one in found.text] == []
    assert '"code":"ClaimUnbound"' in found.text
    (volume,) = [
        msgspec.json.decode(content)
        for record, content in found.records
        if record.subject.startswith("PersistentVolume//") and content is not None
    ][:1]
    claim = volume["spec"]["claimRef"]
    key = f"PersistentVolumeClaim/{claim['namespace']}/{claim['name']}"
    assert key in {record.subject for record, _ in found.records}


async def test_the_claim_of_an_ephemeral_volume_follows_its_pod_where_only_pods_are_redacted() -> (
    None
):
    found = redacted(await entries_of(CLAIMS), KEY, "Pod")
    assert (found.divergence, found.different) == (None, 0)
    assert "trainer" not in found.text


async def test_the_same_key_gives_the_same_codes_and_another_key_others() -> None:
    entries = await entries_of(TEAMS)
    assert redacted(entries).text == redacted(entries).text
    other = redacted(entries, b"j" * 32)
    assert (other.divergence, other.different) == (None, 0)
    codes = {text.split("-")[1] for text in _quoted(redacted(entries).text)}
    assert codes
    assert not codes & {text.split("-")[1] for text in _quoted(other.text)}


def _quoted(text: str) -> list[str]:
    """The names of pods in the objects of a log."""
    objects = [line[line.index(" {") + 1 :] for line in text.splitlines()]
    pods = [one for one in objects if '"kind":"Pod"' in one]
    decoder = json.JSONDecoder()
    names: list[str] = []
    for line in pods:
        body, end = decoder.raw_decode(line)
        manifest, _ = decoder.raw_decode(line[end:].strip())
        names.append(manifest["metadata"]["name"])
        assert body
    return names


def test_pseudonyms_sort_as_what_they_stand_for() -> None:
    texts = ["a", "a-b", "b", "default-x", "Node-1", "kube-systemd", "z", "team-10", "team-2"]
    made = Pseudonyms(KEY, texts, [])
    names = sorted([*texts, *WELL_KNOWN])
    assert sorted(names, key=made.of) == names
    assert len({made.of(one) for one in names}) == len(names)


def test_what_a_controller_numbers_has_the_pseudonym_of_its_owner_with_the_number() -> None:
    texts = ["train", "train-0", "train-10", "train-2", "train-2a", "train-3", "muster", "muster-9"]
    made = Pseudonyms(KEY, [*texts, "muster-t"], [])
    for index in (0, 10, 2):
        assert made.of(f"train-{index}") == f"{made.of('train')}-{index}"
    assert made.of("muster-9") == f"{made.of('muster')}-9"
    names = sorted([*texts, "muster-t", *WELL_KNOWN])
    assert sorted(names, key=made.of) == names
    assert len({made.of(one) for one in names}) == len(names)


@given(st.lists(st.from_regex(r"[ab](-?[ab12])?(-[0-9]{1,2})?", fullmatch=True), max_size=30))
def test_pseudonyms_of_any_names_sort_as_the_names(texts: list[str]) -> None:
    made = Pseudonyms(KEY, texts, [])
    names = sorted(set(texts))
    assert sorted(names, key=made.of) == names
    assert len({made.of(one) for one in names}) == len(names)


def test_namespaces_sort_as_in_namespace_and_name() -> None:
    namespaces = ["a", "a-b", "a.b", "default", "ab"]
    made = Pseudonyms(KEY, [], [one for one in namespaces if one != "default"])
    keys = sorted(f"{one}/x" for one in namespaces)
    pseudonyms = [f"{made.of(one.removesuffix('/x'), is_namespace=True)}/x" for one in keys]
    assert sorted(pseudonyms) == pseudonyms


def test_the_index_of_a_pod_in_its_job_stays() -> None:
    made = Pseudonyms(KEY, ["train-3", "train-12", "train"], [])
    assert made.of("train-3").endswith("x-3")
    assert made.of("train-12").endswith("x-12")
    assert made.of("train").endswith("x")
    code = made.of("train-3").split("-")[1]
    assert code == made.of("train-12").split("-")[1] == made.of("train").split("-")[1]


def test_the_code_is_an_hmac_so_that_a_name_cannot_be_tried_without_the_key() -> None:
    made = Pseudonyms(KEY, ["alice"], []).of("alice")
    assert sha256(b"alice").hexdigest()[:8] not in made
    assert sha256(KEY + b"alice").hexdigest()[:8] not in made


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Pod", "metadata": {"name": "secret", "labels": ["secret"]}},
        {"kind": "Pod", "metadata": {"name": "x", "secretKey with spaces": {"a": "secret"}}},
        {"kind": "Pod", "metadata": "secret"},
        {"kind": "Pod", "metadata": {"name": "x"}, "status": {"phase": "the secret phase of it"}},
        {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"volumes": [{"x": [[["secret"]]]}]}},
        {"kind": "HyperNode", "metadata": {"name": "h"}, "spec": {"members": ["secret", None]}},
        {"kind": "Pod", "metadata": {"name": "x", "ownerReferences": [7, {"name": "secret"}]}},
    ],
)
def test_objects_that_are_not_as_they_should_be_leak_nothing(manifest: object) -> None:
    content = msgspec.json.encode(manifest)
    names = Redaction(frozenset({ALL}))
    names.content("Pod", content)
    done = Redaction(frozenset({ALL}), Pseudonyms(KEY, names.texts, names.namespaces))
    assert b"secret" not in done.content("Pod", content)


def test_pods_that_others_wait_for_get_pseudonyms_in_a_base() -> None:
    apart = AntiAffinityStands(
        topology_key="secret.example/rack",
        selector=(LabelRequirement("secret-app", "In", ("secret-db",)),),
        namespaces=("secret-ns",),
        namespace_selector=(LabelRequirement("secret-team", "Exists"),),
    )
    pods = ChangedPodsStand(
        namespace="secret-ns", labels=(("secret-app", "secret-db"),), anti_affinity=(apart,)
    )
    body = encode_standing(WakeupsStand(changed_pods=(pods,)))
    names = Redaction(frozenset({ALL}))
    names.body(WakeupsStand.kind, body)
    redaction = Redaction(frozenset({ALL}), Pseudonyms(KEY, names.texts, names.namespaces))
    done = redaction.body(WakeupsStand.kind, body)
    assert b"secret" not in done
    (changed,) = decode_standing(WakeupsStand, done).changed_pods
    (term,) = changed.anti_affinity
    assert term.namespaces == (changed.namespace,)
    assert term.selector is not None
    assert [(one.key, *one.values) for one in term.selector] == list(changed.labels)


def test_keys_of_labels_get_pseudonyms_in_a_base() -> None:
    seen = PodSelection(namespace="secret-ns", other_labels=("secret-app",))
    body = encode_standing(PodStands(uid="u1", selection=seen))
    names = Redaction(frozenset({ALL}))
    names.body(PodStands.kind, body)
    redaction = Redaction(frozenset({ALL}), Pseudonyms(KEY, names.texts, names.namespaces))
    assert b"secret" not in redaction.body(PodStands.kind, body)
