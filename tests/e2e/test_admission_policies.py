"""The admission policies on a real API server: what tenants may not state is refused, and all else passes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from msgspec import Struct

from daemon.cluster.client.calls import EVENTS
from events.privileges import CLASSES, KEYS, POOLS, QUEUES, SET, USE
from projections.api_resource import Resource
from projections.kinds.disruption_budget import BUDGETS
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES as QUEUE_OBJECTS
from projections.kinds.workload import DEPLOYMENT, JOB, STATEFUL_SET, VOLCANO_JOBS
from tests.control_plane.api import JSON_PATCH, STRATEGIC, Answer, Api, Object
from tests.control_plane.cluster import Cluster, prepared
from tests.control_plane.manifests import CARD, GPU, GPU_NAME, pod_spec
from tests.control_plane.setup import (
    CLUSTER_ROLES,
    DEFINITIONS,
    NAMESPACES,
    define_resources,
)
from tests.e2e.admission import (
    POLICIES,
    account_of,
    bind,
    grant,
    install,
    remove,
    shipped,
    tenant,
    until,
    until_true,
    user_of,
)
from tests.e2e.rig import POOL as POOL_LABEL
from tests.e2e.rig import rigged

CRON_JOBS: Final = Resource("CronJob", "cronjobs", "batch")
DEPLOYMENTS: Final = DEPLOYMENT.resource
JOBS: Final = JOB.resource
STATEFUL_SETS: Final = STATEFUL_SET.resource
PRIORITY_CLASSES: Final = Resource(
    "PriorityClass", "priorityclasses", "scheduling.k8s.io", is_namespaced=False
)
PYTORCH_JOBS: Final = Resource("PyTorchJob", "pytorchjobs", "kubeflow.org", is_custom=True)
JOB_SETS: Final = Resource("JobSet", "jobsets", "jobset.x-k8s.io", "v1alpha2", is_custom=True)
WORKER_SETS: Final = Resource(
    "LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io", is_custom=True
)
VOLCANO_CRON_JOBS: Final = Resource(
    "CronJob", "cronjobs", "batch.volcano.sh", "v1alpha1", is_custom=True
)
JOB_TEMPLATES: Final = Resource(
    "JobTemplate", "jobtemplates", "flow.volcano.sh", "v1alpha1", is_custom=True
)
DEFINED: Final = (PYTORCH_JOBS, JOB_SETS, WORKER_SETS, VOLCANO_CRON_JOBS, JOB_TEMPLATES)
"""Kinds of other projects, whose objects keep all that they are given here."""
CLASS: Final = "urgent"
NAMESPACE: Final = "team-a"
MEASURED: Final = 300
COST_MS_MAX: Final = 20.0
"""Pods that are created to measure."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster in which the policies are in force."""
    with prepared() as cluster:
        asyncio.run(_prepare(cluster))
        yield cluster


async def _prepare(cluster: Cluster) -> None:
    async with Api.of(cluster.admin) as api:
        await define_resources(api, [definition(one) for one in DEFINED])
        await install(api)
        await api.create(
            PRIORITY_CLASSES,
            {**kind(PRIORITY_CLASSES), "metadata": {"name": CLASS}, "value": 1000},
        )
        async with tenant(cluster, api, NAMESPACE) as team:
            for attempt in attempts():  # Each policy is loaded for itself.
                path = attempt.resource.collection_path(NAMESPACE)
                await until(team, path, attempt.manifest, 403)


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Api]:
    """The administrator of the cluster."""
    async with Api.of(cluster.admin) as api:
        yield api


@pytest.fixture
async def team(cluster: Cluster, admin: Api) -> AsyncIterator[Api]:
    """A tenant with all rights to workloads in `NAMESPACE`, and to nothing of muster."""
    async with tenant(cluster, admin, NAMESPACE) as api:
        yield api


def kind(resource: Resource) -> Object:
    """The first two fields of an object."""
    return {"apiVersion": resource.api_version, "kind": resource.kind}


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod for muster."""
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
    return {**kind(PODS), "metadata": metadata, "spec": pod_spec(**spec)}


def labelled(name: str, labels: dict[str, str]) -> Object:
    """A pod for muster with labels."""
    made = pod(name)
    made["metadata"]["labels"] = labels
    return made


def group(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A PodGroup."""
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
    return {**kind(POD_GROUPS), "metadata": metadata, "spec": {"minMember": 1, **spec}}


def admitted(name: str) -> Object:
    """A PodGroup that states that it is admitted."""
    return {**group(name), "status": {"phase": "Inqueue"}}


def template(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod template."""
    metadata = {"labels": {"app": "x"}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": pod_spec(**spec)}


def workload(
    resource: Resource, name: str, annotations: dict[str, str] | None = None, **spec: Any
) -> Object:
    """A workload with one pod template."""
    selected: Object = {"selector": {"matchLabels": {"app": "x"}}}
    of_kind: dict[str, Object] = {
        DEPLOYMENTS.plural: selected,
        STATEFUL_SETS.plural: {**selected, "serviceName": "x"},
    }
    if resource == JOBS:
        spec = {"restartPolicy": "Never", **spec}
    given = {**of_kind.get(resource.plural, {}), "template": template(annotations, **spec)}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {**kind(resource), "metadata": metadata, "spec": given}


def cron_job(name: str, annotations: dict[str, str] | None = None) -> Object:
    """A CronJob."""
    job = {"spec": {"template": template(annotations, restartPolicy="Never")}}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": job}
    return {**kind(CRON_JOBS), "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def volcano_job(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A Volcano Job of two tasks, of which the second one has annotations."""
    tasks = [
        {"name": "a", "replicas": 1, "template": template(restartPolicy="Never")},
        {"name": "b", "replicas": 1, "template": template(annotations, restartPolicy="Never")},
    ]
    metadata = {"name": name, "namespace": NAMESPACE}
    given = {"schedulerName": "muster", "minAvailable": 2, "tasks": tasks, **spec}
    return {**kind(VOLCANO_JOBS), "metadata": metadata, "spec": given}


def definition(resource: Resource) -> Object:
    """A CustomResourceDefinition that keeps everything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        **kind(DEFINITIONS),
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def of_other_projects(
    annotations: dict[str, str], **spec: Any
) -> Iterator[tuple[Resource, Object]]:
    """Workloads of other projects, of which one of two pod templates states something."""
    both = [template(**spec), template(annotations, **spec)]
    tasks = [{"name": f"t{index}", "template": one} for index, one in enumerate(both)]
    specs: dict[Resource, Object] = {
        PYTORCH_JOBS: {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": both[0]},
                "Worker": {"replicas": 1, "template": both[1]},
            }
        },
        JOB_SETS: {
            "replicatedJobs": [
                {"name": f"j{index}", "template": {"spec": {"template": one}}}
                for index, one in enumerate(both)
            ]
        },
        WORKER_SETS: {
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": both[0],
                "workerTemplate": both[1],
            }
        },
        VOLCANO_CRON_JOBS: {"jobTemplate": {"spec": {"tasks": tasks}}},
        JOB_TEMPLATES: {"tasks": tasks},
    }
    for resource, given in specs.items():
        metadata = {"name": "other", "namespace": NAMESPACE}
        yield resource, {**kind(resource), "metadata": metadata, "spec": given}


def budget(name: str, **spec: Any) -> Object:
    """A PodDisruptionBudget."""
    metadata = {"name": name, "namespace": NAMESPACE}
    given = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    return {**kind(BUDGETS), "metadata": metadata, "spec": given}


class Attempt(Struct, frozen=True):
    """An object that a tenant creates, and the right that is missing."""

    resource: Resource
    manifest: Object
    verb: str
    what: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind}-{self.verb}-{self.name}"


def attempts() -> Iterator[Attempt]:
    """Every way to state what is used against others."""
    stated = {
        "muster.sh/submitted-at": "2020-01-01T00:00:00Z",
        "muster.sh/queue-position": "0",
        "muster.sh/priority": "99",
        "muster.sh/preemption-timeout": "87600h",
        "muster.sh/preemptible": "false",
        "muster.sh/weight": "1000000",
        "volcano.sh/preemptable": "false",
        "volcano.sh/sla-waiting-time": "1s",
    }
    for number, (key, value) in enumerate(stated.items()):
        own = {key: value}
        name = f"states-{number}"
        yield Attempt(PODS, pod(name, own), SET, KEYS, key)
        yield Attempt(PODS, labelled(name, {key: value.replace(":", "")}), SET, KEYS, key)
        yield Attempt(POD_GROUPS, group(name, own), SET, KEYS, key)
        for resource in (DEPLOYMENTS, STATEFUL_SETS, JOBS):
            yield Attempt(resource, workload(resource, name, own), SET, KEYS, key)
        yield Attempt(CRON_JOBS, cron_job(name, own), SET, KEYS, key)
        yield Attempt(VOLCANO_JOBS, volcano_job(name, own), SET, KEYS, key)
    for resource, manifest in of_other_projects({"muster.sh/weight": "9"}):
        yield Attempt(resource, manifest, SET, KEYS, "muster.sh/weight")
    for resource, manifest in of_other_projects({"scheduling.volcano.sh/queue-name": "gold"}):
        yield Attempt(resource, manifest, USE, QUEUES, "gold")
    for resource, manifest in of_other_projects({}, priorityClassName=CLASS):
        yield Attempt(resource, manifest, USE, CLASSES, CLASS)
    scheduling = {"schedulingPolicy": {"queue": "gold", "priorityClass": CLASS}}
    metadata = {"name": "planned", "namespace": NAMESPACE}
    replicas = {"pytorchReplicaSpecs": {"Worker": {"template": template()}}}
    planned = {"runPolicy": scheduling, **replicas}
    manifest = {**kind(PYTORCH_JOBS), "metadata": metadata, "spec": planned}
    yield Attempt(PYTORCH_JOBS, manifest, USE, QUEUES, "gold")
    yield Attempt(
        PODS,
        labelled("moved", {"determined-queue-position": "0"}),
        SET,
        KEYS,
        "determined-queue-position",
    )
    yield Attempt(
        PODS,
        labelled("note", {"determined.ai/task_type": "NOTEBOOK"}),
        SET,
        KEYS,
        "determined.ai/task_type",
    )
    for number, key in enumerate(
        (
            "huawei.com/AscendReal",
            "alibabacloud.com/gpu-index",
            "hami.io/bind-phase",
            "muster.sh/decision",
        )
    ):
        yield Attempt(PODS, pod(f"has-{number}", {key: "1"}), SET, KEYS, key)
        yield Attempt(
            DEPLOYMENTS, workload(DEPLOYMENTS, f"has-{number}", {key: "1"}), SET, KEYS, key
        )
    queue = {"scheduling.volcano.sh/queue-name": "gold"}
    pool = {"muster.sh/pool": "gold"}
    for own, what in ((queue, QUEUES), (pool, POOLS)):
        yield Attempt(PODS, pod("in-gold", own), USE, what, "gold")
        yield Attempt(PODS, labelled("in-gold", own), USE, what, "gold")
        yield Attempt(DEPLOYMENTS, workload(DEPLOYMENTS, "in-gold", own), USE, what, "gold")
        yield Attempt(VOLCANO_JOBS, volcano_job("in-gold", own), USE, what, "gold")
    yield Attempt(POD_GROUPS, group("in-gold", pool), USE, POOLS, "gold")
    yield Attempt(POD_GROUPS, group("in-gold", queue="gold"), USE, QUEUES, "gold")
    yield Attempt(VOLCANO_JOBS, volcano_job("in-gold", queue="gold"), USE, QUEUES, "gold")
    yield Attempt(
        PODS, labelled("in-gold", {"determined.ai/resource_pool": "gold"}), USE, POOLS, "gold"
    )
    yield Attempt(PODS, pod("urgent", priorityClassName=CLASS), USE, CLASSES, CLASS)
    yield Attempt(POD_GROUPS, group("urgent", priorityClassName=CLASS), USE, CLASSES, CLASS)
    yield Attempt(
        DEPLOYMENTS, workload(DEPLOYMENTS, "urgent", priorityClassName=CLASS), USE, CLASSES, CLASS
    )
    yield Attempt(VOLCANO_JOBS, volcano_job("urgent", priorityClassName=CLASS), USE, CLASSES, CLASS)
    yield Attempt(POD_GROUPS, admitted("admitted"), SET, KEYS, "status.phase")
    for name, given in (("none", 0), ("no-part", "0%")):
        yield Attempt(BUDGETS, budget(name, maxUnavailable=given), SET, KEYS, "spec.maxUnavailable")
    yield Attempt(BUDGETS, budget("all", minAvailable="100%"), SET, KEYS, "spec.minAvailable")


async def created(api: Api, resource: Resource, manifest: Object, **query: str) -> Answer:
    """The answer to the creation of an object in the tenant's namespace."""
    return await api.post(resource.collection_path(NAMESPACE), manifest, **query)


def test_the_sentence_is_checked_for_every_shape_of_the_policies() -> None:
    tried = {attempt.resource.plural for attempt in attempts()}
    matched = {
        resource.partition("/")[0]
        for one in shipped("policies")
        if "validations" in one["spec"]
        for rule in one["spec"]["matchConstraints"]["resourceRules"][:1]
        for resource in rule["resources"][-1:]
    }
    # Namespaces and queues have a test of their own, and workloads with one template are alike.
    assert matched - tried == {"namespaces", "queues", "replicationcontrollers", "xgboostjobs"}


async def test_what_is_used_against_others_is_refused_and_the_sentence_names_the_right(
    team: Api,
) -> None:
    for attempt in attempts():
        answer = await created(team, attempt.resource, attempt.manifest)
        assert (answer.status, answer.reason) == (403, "Forbidden"), (str(attempt), answer.body)
        text = answer.object["message"]
        assert f'User "{user_of(NAMESPACE)["name"]}" needs the right to {attempt.verb}' in text
        assert f'"{attempt.name}" in namespace "{NAMESPACE}"' in text
        means = f'the verb "{attempt.verb}" on the resource "{attempt.what}" of the API group'
        assert f'{means} "muster.sh"' in text


async def test_a_right_to_the_one_name_is_enough_and_is_for_that_name_only(
    cluster: Cluster, admin: Api, team: Api
) -> None:
    rights = dict.fromkeys((one.verb, one.what, one.name) for one in attempts())
    for verb, what, name in rights:
        await grant(admin, NAMESPACE, verb, what, name)
    try:
        for attempt in attempts():
            path = attempt.resource.collection_path(NAMESPACE)
            await until(team, path, attempt.manifest, 201)
        other = pod("in-silver", {"scheduling.volcano.sh/queue-name": "silver"})
        assert (await created(team, PODS, other)).status == 403
        async with tenant(cluster, admin, "team-b") as others:
            wanted = pod("in-gold", {"scheduling.volcano.sh/queue-name": "gold"})
            wanted["metadata"]["namespace"] = "team-b"
            assert (await others.post(PODS.collection_path("team-b"), wanted)).status == 403
    finally:
        for verb, what, name in rights:
            await grant(admin, NAMESPACE, verb, what, name, account_of("none", "none"))
        wanted = pod("probe", {"muster.sh/priority": "99"})
        await until(team, PODS.collection_path(NAMESPACE), wanted, 403)


async def test_what_users_may_do_passes(team: Api) -> None:
    passing = [
        (PODS, pod("plain")),
        (PODS, pod("gives-way", {"volcano.sh/preemptable": "true"})),
        (PODS, pod("in-default", {"scheduling.volcano.sh/queue-name": "default"})),
        (PODS, pod("grouped", {"scheduling.k8s.io/group-name": "plain"})),
        (PODS, pod("shares", {"alibabacloud.com/gpu-milli": "500"})),
        (PODS, pod("card", {"volcano.sh/card.name": "A100"})),
        (PODS, pod("capped", {"muster.sh/max-slots": "4", "muster.sh/preemptible": "true"})),
        (PODS, pod("elsewhere", schedulerName="default-scheduler", priorityClassName=CLASS)),
        (PODS, labelled("restarts", {"fault-scheduling": "grace", "isHealthy": "true"})),
        (POD_GROUPS, group("plain", queue="default")),
        (POD_GROUPS, {**group("pending"), "status": {"phase": "Pending"}}),
        (DEPLOYMENTS, workload(DEPLOYMENTS, "plain")),
        (STATEFUL_SETS, workload(STATEFUL_SETS, "plain")),
        (JOBS, workload(JOBS, "plain")),
        (CRON_JOBS, cron_job("plain")),
        (VOLCANO_JOBS, volcano_job("plain", queue="default")),
        (BUDGETS, budget("one", maxUnavailable=1)),
        (BUDGETS, budget("half", minAvailable="50%")),
    ]
    for resource, manifest in passing:
        (await created(team, resource, manifest)).expect(201)
    changes = [
        (PODS.object_path("plain", NAMESPACE), {"metadata": {"labels": {"team": "a"}}}),
        (PODS.object_path("plain", NAMESPACE), {"metadata": {"annotations": {"note": "x"}}}),
        (DEPLOYMENTS.object_path("plain", NAMESPACE), {"spec": {"replicas": 2}}),
        (POD_GROUPS.object_path("plain", NAMESPACE), {"spec": {"minMember": 2}}),
        (POD_GROUPS.object_path("plain", NAMESPACE), {"metadata": {"labels": {"team": "a"}}}),
        (BUDGETS.object_path("one", NAMESPACE), {"spec": {"maxUnavailable": 2}}),
        (VOLCANO_JOBS.object_path("plain", NAMESPACE), {"spec": {"minAvailable": 1}}),
    ]
    for path, change in changes:
        (await team.patch(path, change)).expect(200)
    scale = {"spec": {"replicas": 1}}
    (await team.patch(DEPLOYMENTS.object_path("plain", NAMESPACE, "scale"), scale)).expect(200)
    for resource, name in ((PODS, "plain"), (DEPLOYMENTS, "plain"), (VOLCANO_JOBS, "plain")):
        (await team.delete(resource.object_path(name, NAMESPACE))).expect(200, 202)


async def test_a_change_of_a_privileged_key_is_refused_by_every_way_to_make_it(
    team: Api, admin: Api
) -> None:
    (await created(team, PODS, pod("changes"))).expect(201)
    (await created(team, POD_GROUPS, group("changes"))).expect(201)
    (await created(team, DEPLOYMENTS, workload(DEPLOYMENTS, "changes"))).expect(201)
    inherited = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "gold"}}}
    one, several, ready = (
        PODS.object_path("changes", NAMESPACE),
        POD_GROUPS.object_path("changes", NAMESPACE),
        DEPLOYMENTS.object_path("changes", NAMESPACE),
    )
    given = {"metadata": {"annotations": {"huawei.com/AscendReal": "Ascend910-0"}}}
    in_gold = {"metadata": {"labels": {"scheduling.volcano.sh/queue-name": "gold"}}}
    through_template = {
        "spec": {"template": {"metadata": {"annotations": {"muster.sh/priority": "9"}}}}
    }
    refused = [
        await team.patch(one, given),
        await team.patch(f"{one}/status", given),
        await team.patch(one, in_gold),
        await team.patch(
            one,
            [{"op": "add", "path": "/metadata/labels", "value": {"muster.sh/weight": "9"}}],
            JSON_PATCH,
        ),
        await team.patch(several, {"status": {"phase": "Inqueue"}}),
        await team.patch(several, {"spec": {"queue": "gold"}}),
        await team.patch(several, {"metadata": {"annotations": {"muster.sh/queue-position": "1"}}}),
        await team.patch(ready, through_template),
        await team.patch(ready, inherited),
        await team.patch(f"{ready}/status", inherited),
        await team.put(one, _with_annotation((await team.get(one)).object, "muster.sh/priority")),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    assert all("needs the right to" in answer.object["message"] for answer in refused)
    # These two change nothing of the metadata.
    for part in ("ephemeralcontainers", "resize"):
        found = (await team.patch(f"{one}/{part}", given, STRATEGIC)).expect(200)
        assert "huawei.com/AscendReal" not in found["metadata"].get("annotations", {})


async def test_what_a_pod_requests_is_fixed_once_it_is_bound(team: Api, admin: Api) -> None:
    share = {"alibabacloud.com/gpu-milli": "1"}
    (await created(team, PODS, pod("free"))).expect(201)
    path = PODS.object_path("free", NAMESPACE)
    (await team.patch(path, {"metadata": {"annotations": share}})).expect(200)
    (await created(team, PODS, pod("bound", nodeName="somewhere"))).expect(201)
    path = PODS.object_path("bound", NAMESPACE)
    answer = await team.patch(path, {"metadata": {"annotations": share}})
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert '"alibabacloud.com/gpu-milli"' in answer.object["message"]
    (await team.patch(path, {"metadata": {"annotations": {"note": "x"}}})).expect(200)


async def test_what_an_object_stated_before_may_stay_and_may_not_change(
    team: Api, admin: Api
) -> None:
    before = group("before", {"muster.sh/priority": "60"}, queue="gold", priorityClassName=CLASS)
    before["status"] = {"phase": "Running"}
    await admin.create(POD_GROUPS, before)
    await admin.create(PODS, pod("kept", {"volcano.sh/preemptable": "false"}))
    path = POD_GROUPS.object_path("before", NAMESPACE)
    passing = [
        {"metadata": {"labels": {"team": "a"}}},
        {"spec": {"minMember": 2}},
        {"spec": {"queue": "default"}},
        {"status": {"phase": "Pending"}},
    ]
    for change in passing:
        (await team.patch(path, change)).expect(200)
    refused = [
        {"metadata": {"annotations": {"muster.sh/priority": "61"}}},
        {"metadata": {"annotations": {"muster.sh/priority": None}}},
        {"spec": {"queue": "gold"}},
        {"status": {"phase": "Running"}},
    ]
    assert [(await team.patch(path, change)).status for change in refused] == [403] * 4
    # A protection may be given up.
    path = PODS.object_path("kept", NAMESPACE)
    given_up = {"metadata": {"annotations": {"volcano.sh/preemptable": None}}}
    (await team.patch(path, given_up)).expect(200)


async def test_pods_of_controllers_are_checked_by_their_service_account(
    cluster: Cluster, admin: Api, team: Api
) -> None:
    own = {"scheduling.volcano.sh/queue-name": "silver"}
    name = "of-controller"
    wanted = workload(DEPLOYMENTS, name, own, serviceAccountName="trainer")
    wanted["spec"]["selector"] = {"matchLabels": {"app": name}}
    wanted["spec"]["template"]["metadata"]["labels"] = {"app": name}
    assert (await created(team, DEPLOYMENTS, wanted)).status == 403
    await grant(admin, NAMESPACE, USE, QUEUES, "silver")
    await until(team, DEPLOYMENTS.collection_path(NAMESPACE), wanted, 201)
    (await created(team, DEPLOYMENTS, wanted)).expect(201)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
    async with asyncio.timeout(60):
        while True:
            sets = await admin.items(path, labelSelector=f"app={name}")
            told = [
                one["message"]
                for one in sets
                for one in (one.get("status") or {}).get("conditions") or []
                if one["type"] == "ReplicaFailure"
            ]
            if told:
                break
            await asyncio.sleep(0.1)
    assert f'Service account "{NAMESPACE}/trainer"' in told[0]
    assert 'needs the right to use queue "silver"' in told[0]
    # Who states a controller is not one by that.
    claimed = pod("claims", own, serviceAccountName="trainer")
    claimed["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": sets[0]["metadata"]["name"],
            "uid": sets[0]["metadata"]["uid"],
            "controller": True,
        }
    ]
    await grant(admin, NAMESPACE, USE, QUEUES, "silver", account_of(NAMESPACE, "trainer"))
    await until(team, PODS.collection_path(NAMESPACE), claimed, 403)
    # The controller tries again, ever more rarely; a change makes it try at once.
    change = {"spec": {"replicas": 2}}
    await grant(
        admin,
        NAMESPACE,
        USE,
        QUEUES,
        "silver",
        account_of(NAMESPACE, "trainer"),
        user_of(NAMESPACE),
    )
    (await team.patch(DEPLOYMENTS.object_path(name, NAMESPACE), change)).expect(200)

    async def are_made() -> bool:
        path = PODS.collection_path(NAMESPACE)
        return len(await admin.items(path, labelSelector=f"app={name}")) == 2

    await until_true(are_made)


async def test_only_controllers_make_pods_of_daemon_sets(team: Api) -> None:
    claimed = pod("of-node")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1"}
    claimed["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    answer = await created(team, PODS, claimed)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert "that a DaemonSet or Node controls a pod" in answer.object["message"]
    claimed["metadata"]["ownerReferences"] = [owner]
    (await created(team, PODS, claimed)).expect(201)


async def test_keys_of_queues_and_namespaces_need_their_rights_too(
    cluster: Cluster, admin: Api
) -> None:
    rules = [{"apiGroups": ["", QUEUE_OBJECTS.group], "resources": ["*"], "verbs": ["*"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "keeper"}}
    path = "/apis/rbac.authorization.k8s.io/v1"
    (
        await admin.post(f"{path}/clusterroles", {**role, "kind": "ClusterRole", "rules": rules})
    ).expect(201)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "keeper"}
    reference = {"apiGroup": subject["apiGroup"], "kind": "ClusterRole", "name": "keeper"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    (await admin.post(f"{path}/clusterrolebindings", binding)).expect(201)
    async with Api.of(cluster.admin, impersonated="keeper") as keeper:
        plain = {**kind(QUEUE_OBJECTS), "metadata": {"name": "kept"}, "spec": {"weight": 1}}
        await until(keeper, QUEUE_OBJECTS.path, plain, 201)
        quota = deepcopy(plain)
        quota["metadata"]["annotations"] = {"volcano.sh/card.quota": '{"A100": 9}'}
        answer = await keeper.post(QUEUE_OBJECTS.path, quota)
        assert (answer.status, answer.reason) == (403, "Forbidden")
        space = {**kind(NAMESPACES), "metadata": {"name": "team-c"}}
        (await keeper.post(NAMESPACES.path, space)).expect(201)
        for key, what in (
            ("scheduling.volcano.sh/queue-name", "queue"),
            ("muster.sh/pool", "pool"),
        ):
            change = {"metadata": {"annotations": {key: "gold"}}}
            answer = await keeper.patch(NAMESPACES.object_path("team-c"), change)
            assert (answer.status, answer.reason) == (403, "Forbidden")
            assert (
                f'needs the right to use {what} "gold" in namespace "team-c"'
                in answer.object["message"]
            )


async def test_a_phase_is_set_through_the_status_by_muster_and_controllers_only(
    cluster: Cluster, admin: Api, team: Api
) -> None:
    """Volcano's own definition has the status as a part of its own."""
    path = DEFINITIONS.object_path(f"{POD_GROUPS.plural}.{POD_GROUPS.group}")
    (await created(team, POD_GROUPS, group("voted"))).expect(201)
    own = POD_GROUPS.object_path("voted", NAMESPACE)
    admits = {"status": {"phase": "Inqueue"}}
    add = {"op": "add", "path": "/spec/versions/0/subresources", "value": {"status": {}}}
    (await admin.patch(path, [add], JSON_PATCH)).expect(200)
    try:

        async def is_served() -> bool:
            return (await team.patch(f"{own}/status", {"status": {"running": 0}})).status == 200

        await until_true(is_served)
        answer = await team.patch(f"{own}/status", admits)
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert '"status.phase"' in answer.object["message"]
        # Without the part, a phase is dropped.
        (await team.patch(own, admits)).expect(200)
        assert (await admin.get(own)).object.get("status", {}).get("phase", "") == ""
        async with Api.of(cluster.muster) as muster:
            (await muster.patch(f"{own}/status", admits)).expect(200)
        (await team.patch(f"{own}/status", {"status": {"phase": "Pending"}})).expect(200)
        account = {"kind": "ServiceAccount", "name": "volcano", "namespace": "volcano-system"}
        await bind(admin, NAMESPACE, "cluster-admin-of-groups", account)
        rules = [{"apiGroups": [POD_GROUPS.group], "resources": ["*"], "verbs": ["*"]}]
        role = {**kind(CLUSTER_ROLES), "metadata": {"name": "cluster-admin-of-groups"}}
        await admin.apply(CLUSTER_ROLES, {**role, "rules": rules})
        user = "system:serviceaccount:volcano-system:volcano"
        groups = ("system:serviceaccounts", "system:serviceaccounts:volcano-system")
        async with Api.of(cluster.admin, impersonated=user, groups=groups) as controller:

            async def is_admitted() -> bool:
                return (await controller.patch(f"{own}/status", admits)).status == 200

            await until_true(is_admitted)
    finally:
        remove = {"op": "remove", "path": "/spec/versions/0/subresources"}
        (await admin.patch(path, [remove], JSON_PATCH)).expect(200)

        async def is_whole() -> bool:
            return (await team.patch(f"{own}/status", {})).status == 404

        await until_true(is_whole)


async def test_device_plugins_write_which_devices_a_pod_has(
    cluster: Cluster, admin: Api, team: Api
) -> None:
    (await created(team, PODS, pod("served", nodeName="somewhere"))).expect(201)
    user = "system:serviceaccount:kube-system:device-plugin"
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system")
    await bind(admin, NAMESPACE, "edit", account_of("kube-system", "device-plugin"))
    path = PODS.object_path("served", NAMESPACE)
    given = {"metadata": {"annotations": {"huawei.com/AscendReal": "Ascend910-0"}}}
    async with Api.of(cluster.admin, impersonated=user, groups=groups) as plugin:

        async def is_written() -> bool:
            return (await plugin.patch(path, given)).status == 200

        await until_true(is_written)
        order = {"metadata": {"annotations": {"muster.sh/priority": "9"}}}
        assert (await plugin.patch(path, order)).status == 403
    (await team.delete(path, gracePeriodSeconds="0")).expect(200)  # Its node and chip do not exist.


async def test_operators_may_set_all_keys_by_the_role_that_is_shipped(
    cluster: Cluster, admin: Api
) -> None:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}
    await bind(admin, NAMESPACE, "muster-admission-operator", subject)
    await bind(admin, NAMESPACE, "edit", subject)
    async with Api.of(cluster.admin, impersonated="operator") as operator:
        wanted = pod(
            "by-operator",
            {"muster.sh/priority": "99", "scheduling.volcano.sh/queue-name": "gold"},
            priorityClassName=CLASS,
        )
        await until(operator, PODS.collection_path(NAMESPACE), wanted, 201)


async def test_hostile_texts_and_numbers_of_names_are_refused_without_a_failure(team: Api) -> None:
    many = {f"n{index}": f"queue-{index}" for index in range(60)}
    tasks = [
        {
            "name": name,
            "replicas": 1,
            "template": template({"scheduling.volcano.sh/queue-name": queue}),
        }
        for name, queue in many.items()
    ]
    wide = volcano_job("wide")
    wide["spec"]["tasks"] = tasks
    every = pod("every", dict.fromkeys(_privileged(), "1"))
    odd = pod("odd", {"scheduling.volcano.sh/queue-name": 'a"/\n\\' + "x" * 5000})
    endless = volcano_job("endless")
    endless["spec"]["tasks"] = [{"name": f"t{index}"} for index in range(5_000)]
    answer = await created(team, VOLCANO_JOBS, endless)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert "more than 256 pod templates" in answer.object["message"]
    (
        await created(team, PODS, labelled("labels", {f"l{index}": "" for index in range(20_000)}))
    ).expect(201)
    (
        await team.patch(PODS.object_path("labels", NAMESPACE), {"metadata": {"labels": {"l": ""}}})
    ).expect(200)
    for resource, manifest in ((VOLCANO_JOBS, wide), (PODS, every), (PODS, odd)):
        answer = await created(team, resource, manifest)
        assert (answer.status, answer.reason) == (403, "Forbidden"), answer.body
        assert "right" in answer.object["message"]


async def test_the_server_finds_no_mistake_in_the_types_of_the_expressions(admin: Api) -> None:
    names = [one["metadata"]["name"] for one in shipped("policies") if "validations" in one["spec"]]

    async def checked(name: str) -> Object | None:
        found: Object = (await admin.get(POLICIES.object_path(name))).expect(200)
        return found.get("status")

    for name in names:

        async def is_checked(name: str = name) -> bool:
            return bool(await checked(name))

        await until_true(is_checked)
        assert await checked(name) == {"observedGeneration": 1, "typeChecking": {}}, name


async def test_muster_binds_pods_while_the_policies_are_in_force(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with rigged(cluster, tmp_path) as rig:
        labels = {"muster.sh/gpu-sharing": "true", "nvidia.com/gpu.memory": "81559"}
        await rig.add_nodes(1, 8, "node", GPU_NAME, **labels)
        await rig.started()
        await rig.group("gang", 2)
        await rig.pod("a", group="gang")
        await rig.pod("b", group="gang")
        await rig.queue(f"{rig.namespace}-q", 8)
        card = {
            "volcano.sh/card.name": GPU_NAME,
            "scheduling.volcano.sh/queue-name": f"{rig.namespace}-q",
        }
        manifest = {**pod("share", card), "spec": rig.spec(1, product=GPU)}
        manifest["metadata"]["namespace"] = rig.namespace
        await rig.api.create(PODS, manifest)
        found = await rig.until_running(3)
        (shared,) = (one for one in found if one["metadata"]["name"] == "share")
        assert "alibabacloud.com/gpu-index" in shared["metadata"]["annotations"]
        path = POD_GROUPS.object_path("gang", rig.namespace)

        async def is_running() -> bool:
            return bool((await rig.api.get(path)).object["status"]["phase"] == "Running")

        await until_true(is_running)


def _with_annotation(found: Object, key: str) -> Object:
    found["metadata"].setdefault("annotations", {})[key] = "9"
    return found


def _privileged() -> list[str]:
    return [one.name for one in attempts() if one.what == KEYS and "/" in one.name]


async def test_the_policies_cost_a_creation_little(cluster: Cluster, team: Api, admin: Api) -> None:
    """Nothing is checked in kube-system: pods are created there and in the tenant's namespace in turns."""
    seconds: dict[str, list[float]] = {"none": [], "plain": [], "stated": []}
    stated = {"scheduling.volcano.sh/queue-name": "gold", "muster.sh/priority": "60"}
    for what, name in ((QUEUES, "gold"), (CLASSES, CLASS)):
        await grant(admin, NAMESPACE, USE, what, name)
    await grant(admin, NAMESPACE, SET, KEYS, "muster.sh/priority")
    wanted = pod("probe", stated, priorityClassName=CLASS)
    await until(team, PODS.collection_path(NAMESPACE), wanted, 201)
    now = asyncio.get_running_loop().time
    async with tenant(cluster, admin, "kube-system") as unchecked:
        for number in range(MEASURED):
            outside = pod(f"outside-{number}")
            outside["metadata"]["namespace"] = "kube-system"
            requests = (
                ("none", unchecked, outside),
                ("plain", team, pod(f"measured-{number}")),
                ("stated", team, pod(f"measured-{number}", stated, priorityClassName=CLASS)),
            )
            for what, api, manifest in requests:
                path = PODS.collection_path(manifest["metadata"]["namespace"])
                begun = now()
                answer = await api.post(path, manifest, dryRun="All")
                seconds[what].append(now() - begun)
                answer.expect(201)
    found = {what: round(median(times) * 1e3, 2) for what, times in seconds.items()}
    print(f"milliseconds to create a pod: {found}")  # noqa: T201
    assert found["plain"] < found["none"] + COST_MS_MAX
    assert found["stated"] < found["none"] + COST_MS_MAX


async def test_muster_keeps_its_own_bounds_when_the_policies_are_removed_while_objects_stand(
    cluster: Cluster, admin: Api, tmp_path: Path
) -> None:
    async with rigged(cluster, tmp_path) as rig:
        await rig.add_nodes(1)
        pool = {
            "name": "own",
            "nodeSelector": {POOL_LABEL: rig.namespace},
            "slots": [CARD],
            "decider": "priority",
            "preemptionTimeout": "0s",
            "priorityMax": 50,
        }
        policy = tmp_path / "policy.yaml"
        policy.write_text(json.dumps({"pools": [pool], "defaultComputePool": "own"}))
        daemon = await rig.started(policy=str(policy))
        await rig.group("stands", 1)
        await rig.pod("stands", cards=8, group="stands")
        await rig.until_running(1)
        path = POD_GROUPS.object_path("stands", rig.namespace)
        stated = {"metadata": {"annotations": {"muster.sh/priority": "50"}}}
        (await admin.patch(path, stated)).expect(200)
        await remove(admin)
        try:
            async with tenant(cluster, admin, "team-d") as own:
                keys = {
                    "muster.sh/priority": "99",
                    "muster.sh/queue-position": "1",
                    "muster.sh/submitted-at": "2020-01-01T00:00:00Z",
                }
                forged = {**group("forged", keys), "status": {"phase": "Running"}}
                named = pod("forged", {"scheduling.k8s.io/group-name": "forged"})
                named["spec"] = rig.spec(8)
                for manifest in (forged, named):
                    manifest["metadata"]["namespace"] = "team-d"
                await until(own, POD_GROUPS.collection_path("team-d"), forged, 201)
                await own.create(POD_GROUPS, forged)
                await own.create(PODS, named)

                async def is_said() -> bool:
                    found = await admin.items(EVENTS.collection_path("team-d"))
                    return any(
                        one["reason"] == "Misconfigured"
                        and "muster.sh/queue-position" in one["note"]
                        for one in found
                    )

                await until_true(is_said)
                await rig.pod("after", cards=0)
                await rig.until_running(2)
                await own.delete(PODS.object_path("forged", "team-d"), gracePeriodSeconds="0")
            assert (await rig.judged(daemon)).bound == 2
        finally:
            await install(admin)
            async with tenant(cluster, admin, NAMESPACE) as team:
                wanted = pod("probe", {"muster.sh/weight": "99"})
                await until(team, PODS.collection_path(NAMESPACE), wanted, 403)
