"""The table of privileges: every label, annotation, field and object that changes a decision.

A row says who writes it, what it does, what it can do to others, and what bounds that. `docs/privileges.md` and the admission
policies in `deploy/` are made from this table. `tests/events/test_privileges.py` fails if the code reads a key that is not in it:
a key is added here first.

The scheduler sees what an object states, not who wrote it. What a tenant could use against others is bounded twice: by the
scheduler, whatever the API server accepts (`bound`), and by Kubernetes' own admission, where it is installed (`right`).
"""

from typing import Final

from msgspec import Struct

ANNOTATION: Final = "annotation"
LABEL: Final = "label"
EITHER: Final = "annotation or label"
FIELD: Final = "field"
OBJECT: Final = "object"
FORMS: Final = (ANNOTATION, LABEL, EITHER, FIELD, OBJECT)

USER: Final = "user"
"""A tenant with rights in a namespace."""
CONTROLLER: Final = "controller"
"""A controller of workloads: those of Kubernetes, of Volcano, of a training operator."""
OPERATOR: Final = "operator"
"""A person who runs the queues."""
DEVICE_PLUGIN: Final = "device plugin"
"""A device plugin, the kubelet, or another node agent."""
MUSTER: Final = "muster"
ADMINISTRATOR: Final = "cluster administrator"
WRITERS: Final = (USER, CONTROLLER, OPERATOR, DEVICE_PLUGIN, MUSTER, ADMINISTRATOR)

POD: Final = "Pod"
POD_GROUP: Final = "PodGroup"
WORKLOAD: Final = "workload"
"""An object with pod templates: Deployment, Job, Volcano Job and so on, and the templates in it."""
QUEUE: Final = "Queue"
NAMESPACE: Final = "Namespace"
NODE: Final = "Node"
CLAIM: Final = "PersistentVolumeClaim"
BUDGET: Final = "PodDisruptionBudget"
JOB_OBJECTS: Final = (POD, POD_GROUP, WORKLOAD)

RIGHTS_GROUP: Final = "muster.sh"
"""The API group of the virtual resources of RBAC: no object of them exists."""
SET: Final = "set"
USE: Final = "use"
DELEGATE: Final = "delegate"
"""Verbs. `delegate` is for controllers: what they create for others is checked by the service account of the pod."""
KEYS: Final = "keys"
"""Virtual resource of the verb `set`; the name is that of the key."""
QUEUES: Final = "queues"
POOLS: Final = "pools"
CLASSES: Final = "priorityclasses"
"""Virtual resources of the verb `use`; the name is that of the queue, the pool or the priority class."""
PODS: Final = "pods"
"""Virtual resource of the verb `delegate`."""


class Privilege(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    key: str
    """The label or annotation, the path of the field, or the kind of the object."""
    form: str
    kinds: tuple[str, ...]
    writers: tuple[str, ...]
    """Who is meant to write it."""
    effect: str
    others: str = ""
    """What it can do to other tenants; empty: nothing beyond what the quota of its queue allows."""
    bound: str = ""
    """What bounds that in the scheduler, whatever the API server accepts."""
    verb: str = ""
    """`set`, or `use` of what it names; empty: RBAC on the object is all that admission asks for."""
    resource: str = ""
    """Virtual resource of `use`."""
    harmless: tuple[str, ...] = ()
    """Values that need no right; then its absence needs none either."""
    is_fixed_when_bound: bool = False
    """Whether it is part of what a pod requests: it must not change once the pod is bound."""


class Section(Struct, frozen=True):
    """Rows that a reader looks for together."""

    title: str
    rows: tuple[Privilege, ...]


_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_NAMESPACES: Final = (
    "`namespaces`, `namespaceSelector` of the queue or pool in the policy; by default all"
)
_OWN_JOB: Final = "concerns its own job only, within the quota of its queue"
_RBAC: Final = "RBAC: not for tenants"


def _set(
    key: str,
    effect: str,
    others: str,
    bound: str,
    *,
    form: str = EITHER,
    kinds: tuple[str, ...] = JOB_OBJECTS,
    writers: tuple[str, ...] = (OPERATOR,),
    harmless: tuple[str, ...] = (),
) -> Privilege:
    """Return the row of a key that only those with the right `set` may write."""
    return Privilege(
        key=key,
        form=form,
        kinds=kinds,
        writers=writers,
        effect=effect,
        others=others,
        bound=bound,
        verb=SET,
        harmless=harmless,
    )


def _use(
    key: str,
    resource: str,
    effect: str,
    others: str,
    *,
    form: str = EITHER,
    kinds: tuple[str, ...] = JOB_OBJECTS,
    writers: tuple[str, ...] = (USER,),
    bound: str = _NAMESPACES,
) -> Privilege:
    """Return the row of a key that names what one needs the right `use` for."""
    return Privilege(
        key=key,
        form=form,
        kinds=kinds,
        writers=writers,
        effect=effect,
        others=others,
        bound=bound,
        verb=USE,
        resource=resource,
    )


def _own(
    key: str,
    effect: str,
    *,
    form: str = EITHER,
    kinds: tuple[str, ...] = JOB_OBJECTS,
    writers: tuple[str, ...] = (USER,),
    others: str = "",
    bound: str = _OWN_JOB,
    is_fixed_when_bound: bool = False,
) -> Privilege:
    """Return the row of a key that every user may write."""
    return Privilege(
        key=key,
        form=form,
        kinds=kinds,
        writers=writers,
        effect=effect,
        others=others,
        bound=bound,
        is_fixed_when_bound=is_fixed_when_bound,
    )


def _request(key: str, effect: str, *, form: str = ANNOTATION) -> Privilege:
    """Return the row of a key by which a pod requests devices."""
    return Privilege(
        key=key,
        form=form,
        kinds=JOB_OBJECTS,
        writers=(USER,),
        effect=effect,
        others="stated after the pod is bound: it would take devices of others",
        bound="fixed when the pod is bound; a later change is an error of the pod alone",
        is_fixed_when_bound=True,
    )


def _devices(
    key: str,
    effect: str,
    *,
    writers: tuple[str, ...] = (MUSTER, DEVICE_PLUGIN),
    others: str = "claims devices that others hold or get, or hides those that it holds",
    bound: str = "decided devices count until the device report shows others, made while the pod runs, or until it ends; at most as many as requested",
) -> Privilege:
    """Return the row of an annotation of a pod that says which devices it has."""
    return Privilege(
        key=key,
        form=ANNOTATION,
        kinds=(POD, WORKLOAD),
        writers=writers,
        effect=effect,
        others=others,
        bound=bound,
        verb=SET,
    )


def _cluster(
    key: str,
    form: str,
    kind: str,
    effect: str,
    others: str = "",
    *,
    writers: tuple[str, ...] = (ADMINISTRATOR,),
    bound: str = _RBAC,
    verb: str = "",
) -> Privilege:
    """Return the row of what is on an object that tenants cannot write."""
    return Privilege(
        key=key,
        form=form,
        kinds=(kind,),
        writers=writers,
        effect=effect,
        others=others,
        bound=bound,
        verb=verb,
    )


SECTIONS: Final = (
    Section(
        "Queue and pool of a job",
        (
            _use(
                "scheduling.volcano.sh/queue-name",
                QUEUES,
                "queue of pods without a PodGroup that names one; of a workload: of the group of its pods",
                "uses the share of a queue that is meant for others",
                kinds=(POD, WORKLOAD, NAMESPACE),
            ),
            _use(
                "spec.queue",
                QUEUES,
                "queue of the group; of a Volcano Job: of its PodGroup",
                "uses the share of a queue that is meant for others",
                form=FIELD,
                kinds=(POD_GROUP, WORKLOAD),
            ),
            _use(
                "muster.sh/pool",
                POOLS,
                "pool of the job; of a Namespace: of its jobs that name none",
                "uses nodes that are meant for others",
                kinds=(*JOB_OBJECTS, NAMESPACE),
            ),
            _use(
                "determined.ai/resource_pool",
                POOLS,
                "pool of the job, as the Determined master states it",
                "uses nodes that are meant for others",
                form=LABEL,
                writers=(CONTROLLER,),
            ),
            _use(
                "spec.priorityClassName",
                CLASSES,
                "order of jobs, and which of them are preempted",
                "gets ahead of others and preempts their pods within the queue or pool",
                form=FIELD,
                bound="`priorityMax` of the queue or pool; a ResourceQuota with a scope of priority classes holds for pods only",
            ),
        ),
    ),
    Section(
        "Order and protection of a job",
        (
            _set(
                "muster.sh/priority",
                "priority of the job in a pool",
                "gets ahead of others and preempts their pods",
                "`priorityMax` of the queue and pool",
            ),
            _set(
                "muster.sh/queue-position",
                "position of the job in its pool, smaller first",
                "gets ahead of others and preempts their pods",
                "counts only with `position: true` of the queue or pool",
            ),
            _set(
                "determined-queue-position",
                "position of the job in its pool, as the Determined master states it",
                "gets ahead of others and preempts their pods",
                "counts only with `position: true` of the queue or pool",
                form=LABEL,
                writers=(CONTROLLER,),
            ),
            _set(
                "muster.sh/submitted-at",
                "submission time of the job, and with it its position",
                "gets ahead of others and preempts their pods",
                "counts only with `submissionTime: true` of the queue or pool",
            ),
            _set(
                "muster.sh/weight",
                "weight of the job in a fair-share pool",
                "gets a larger share; tasks of others are released",
                "`weightMax` of the queue and pool",
            ),
            _set(
                "muster.sh/preemptible",
                "whether tasks of the job are released for others",
                "keeps what it holds above its share for ever",
                "`preemptible` of the queue and pool",
                harmless=("true",),
            ),
            _set(
                "muster.sh/preemption-timeout",
                "time that released pods have to exit",
                "lets others wait for what it holds",
                "`preemptionTimeoutMax` of the queue and pool",
            ),
            _set(
                "volcano.sh/preemptable",
                "whether pods are preempted and reclaimed",
                "keeps what it holds above its share for ever",
                "protects within what the queue deserves",
                harmless=_TRUE,
            ),
            _set(
                "volcano.sh/sla-waiting-time",
                "time after which a job that waits goes first and is admitted (plugin `sla`)",
                "gets ahead of others",
                "the plugin `sla` is off by default",
            ),
            _set(
                "determined.ai/task_type",
                "kinds other than TRIAL are not preempted in a pool",
                "keeps what it holds above its share for ever",
                "`preemptible` of the queue and pool",
                form=LABEL,
                writers=(CONTROLLER,),
                harmless=("TRIAL", "TASK_TYPE_TRIAL"),
            ),
            _own("muster.sh/max-slots", "most slots that the job uses"),
            _own("muster.sh/job", "joins pod groups of its namespace into one job of a pool"),
            _own("muster.sh/task", "names a task, which a later pod continues"),
            _own(
                "muster.sh/single-node",
                "all pods of a task on one node",
                others="in a pool a task at the front that waits for a whole node can hold up those behind it",
                bound="`infeasibleBlocks`, backfill",
            ),
            _own(
                "determined.ai/task_id",
                "joins the trials of an experiment into one job",
                form=LABEL,
                writers=(CONTROLLER,),
            ),
            _own(
                "muster.sh/release-requested",
                "time at which a released pod is evicted",
                form=ANNOTATION,
                kinds=(POD,),
                writers=(MUSTER,),
            ),
        ),
    ),
    Section(
        "Pod groups",
        (
            *(
                _own(
                    key,
                    "group of the pod, in its namespace",
                    form=form,
                    kinds=(POD, WORKLOAD),
                    others="of a running pod: moves its charge into another queue",
                    bound="fixed when the pod is bound",
                )
                for key, form in (
                    ("scheduling.k8s.io/group-name", ANNOTATION),
                    ("scheduling.volcano.sh/group-name", ANNOTATION),
                    ("scheduling.x-k8s.io/pod-group", LABEL),
                    ("pod-group.scheduling.sigs.k8s.io/name", LABEL),
                )
            ),
            *(
                _own(
                    key,
                    "minimum of a group without a PodGroup",
                    form=form,
                    kinds=(POD, WORKLOAD),
                    others="a gang that is never complete is not admitted, or gives back what it reserved",
                    bound="the quota of its queue; a vote with back-off",
                )
                for key, form in (
                    ("pod-group.scheduling.sigs.k8s.io/min-available", LABEL),
                    ("scheduling.volcano.sh/group-min-member", ANNOTATION),
                    ("huawei.com/schedule_minAvailable", ANNOTATION),
                )
            ),
            _own(
                "spec.minMember, spec.minTaskMember, spec.minResources, spec.subGroupPolicy, spec.networkTopology",
                "how many pods start together, what they need, and how close to each other",
                form=FIELD,
                kinds=(POD_GROUP, WORKLOAD),
                others="a group without pods holds the quota of its queue",
                bound="a stated time, then a new vote with back-off behind the others",
            ),
            Privilege(
                key="status.phase",
                form=FIELD,
                kinds=(POD_GROUP,),
                writers=(MUSTER, CONTROLLER),
                effect="whether the group is admitted (`Inqueue`)",
                others="skips admission: holds quota of its queue before others",
                bound="a phase that muster did not give is not trusted after the first list of the log",
                verb=SET,
                harmless=("", "Pending"),
            ),
            _own("volcano.sh/task-spec", "task of the pod in its job", kinds=(POD, WORKLOAD)),
            _own(
                "volcano.sh/task-index",
                "order of pods in a task",
                form=ANNOTATION,
                kinds=(POD, WORKLOAD),
                writers=(CONTROLLER,),
            ),
            _own(
                "volcano.sh/task-priority",
                "order of tasks in a job",
                form=ANNOTATION,
                kinds=(POD, WORKLOAD),
            ),
            _own(
                "batch.kubernetes.io/job-completion-index",
                "number of the pod in its job after a fault",
                kinds=(POD,),
                writers=(CONTROLLER,),
            ),
            Privilege(
                key="metadata.ownerReferences",
                form=FIELD,
                kinds=(POD,),
                writers=(CONTROLLER, DEVICE_PLUGIN),
                effect="which pods are one group; pods that a DaemonSet or Node controls are not evicted",
                others="keeps what it holds above its share for ever",
                bound="the garbage collector deletes pods whose owner does not exist",
                verb=SET,
            ),
            _own(
                "kubernetes.io/config.mirror",
                "a static pod, which is not evicted",
                form=ANNOTATION,
                kinds=(POD,),
                writers=(DEVICE_PLUGIN,),
                others="none: the API server accepts it with `nodeName` only, and never later",
                bound="Kubernetes' validation; NodeRestriction",
            ),
        ),
    ),
    Section(
        "What a pod requests",
        (
            _own(
                "spec.containers[].resources, spec.nodeSelector, spec.affinity, spec.tolerations and so on",
                "where the pod fits; all fields are listed in `projections/pod_fields.py`",
                form=FIELD,
                kinds=(POD, WORKLOAD),
                others="required anti-affinity to pods of other namespaces keeps them from a node",
                bound="Kubernetes' rules for pods: a spec that is bound does not change",
            ),
            _own(
                "spec.nodeName",
                "the pod is on that node without a decision",
                form=FIELD,
                kinds=(POD, WORKLOAD),
                others="takes what others were given; their kubelet rejects one of the two",
                bound="a rejection closes the node to that namespace only",
            ),
            _own(
                "spec.schedulerName", "which scheduler decides", form=FIELD, kinds=(POD, WORKLOAD)
            ),
            _own(
                "status of a Pod",
                "phase, conditions, allocated resources",
                form=FIELD,
                kinds=(POD,),
                writers=(DEVICE_PLUGIN, MUSTER),
                others="a right on `pods/status` lets a pod look ended while it runs",
                bound=_RBAC,
            ),
            _request("volcano.sh/card.name", "models of cards that the pod accepts"),
            _request("volcano.sh/card.card", "the same under an older name"),
            _own(
                "volcano.sh/card.request",
                "cards that a group asks for while it has no pods",
                form=ANNOTATION,
                kinds=(POD_GROUP, WORKLOAD),
            ),
            _request("alibabacloud.com/gpu-milli", "thousandths of a GPU"),
            _request("alibabacloud.com/gpu-count", "number of GPUs of which it gets so much"),
            _request("alibabacloud.com/gpu-card-model", "models of GPUs that it accepts"),
            _request("gpu-fraction", "fraction of a GPU"),
            _request("gpu-memory", "memory of a GPU"),
            _request("gpu-fraction-num-devices", "number of GPUs of which it gets a fraction"),
            *(
                _request(key, "a wish of HAMi that muster refuses or takes as nothing")
                for key in (
                    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype"),
                    *("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
                    *("nvidia.com/numa-bind", "nvidia.com/vgpu-mode"),
                )
            ),
            _request("huawei.com/schedule_policy", "which chips of an Ascend node", form=EITHER),
            _request("sp-block", "number of chips in a logical SuperPoD", form=EITHER),
            _request("super-pod-affinity", "whether SuperPoDs are required", form=EITHER),
            _request("npu-310-strategy", "cards or chips of a 310P", form=EITHER),
            _request("duo", "whether chips come from one duo card", form=EITHER),
            _request("distributed", "whether a duo job is distributed", form=EITHER),
            _request("distributed-job", "the same, as the device plugin reads it", form=EITHER),
            _request("vnpu-level", "size of a virtual NPU", form=EITHER),
            _request("vnpu-dvpp", "whether a virtual NPU has DVPP", form=EITHER),
            _own(
                "tor-affinity",
                "whether a job is placed by leaf switches, and whether it shares them",
                form=EITHER,
                others="a large model has leaf switches for itself",
                bound="the quota of its queue",
                is_fixed_when_bound=True,
            ),
        ),
    ),
    Section(
        "Devices that a pod has",
        (
            _devices("huawei.com/AscendReal", "chips that the device plugin gave to the pod"),
            *(
                _devices(key, "chips that were decided for the pod")
                for key in (
                    *("huawei.com/Ascend910", "huawei.com/Ascend310", "huawei.com/Ascend310P"),
                    *("huawei.com/npu", "huawei.com/npu-core"),
                )
            ),
            _devices(
                "ascend.kubectl.kubernetes.io/ascend-910-configuration",
                "entry of the rank table of the pod",
                others="",
                bound=_OWN_JOB,
            ),
            _devices(
                "predicate-time",
                "order in which a device plugin serves the pods of a node",
                others="gets the chips that were decided for another pod",
                bound="pods of a node are bound one by one, each after the confirmation of the one before",
            ),
            _own(
                "hccl/rankIndex",
                "rank of the pod in its job",
                form=ANNOTATION,
                kinds=(POD, WORKLOAD),
                writers=(MUSTER, CONTROLLER, USER),
            ),
            _own(
                "super-pod-rank",
                "number of its logical SuperPoD",
                form=ANNOTATION,
                kinds=(POD, WORKLOAD),
                writers=(MUSTER,),
            ),
            _own(
                "super-pod-id",
                "its SuperPoD",
                form=ANNOTATION,
                kinds=(POD, WORKLOAD),
                writers=(MUSTER,),
            ),
            *(
                _devices(
                    key,
                    effect,
                    writers=(MUSTER,),
                    others="a leaf switch looks taken or unhealthy to other jobs",
                    bound="what a decision says of the switch counts before the annotation",
                )
                for key, effect in (
                    ("isSharedTor", "whether the leaf switch of the pod is shared"),
                    ("isHealthy", "whether it is healthy"),
                    ("sharedTorIp", "addresses of shared leaf switches"),
                )
            ),
            _devices("alibabacloud.com/gpu-index", "numbers of the GPUs of the pod"),
            _devices("alibabacloud.com/assume-time", "when it got them"),
            *(
                _devices(key, effect)
                for key, effect in (
                    ("hami.io/vgpu-node", "node for which HAMi's device plugin serves the pod"),
                    ("hami.io/vgpu-time", "when its GPUs were decided"),
                    ("hami.io/vgpu-devices-to-allocate", "GPUs that are to be given to the pod"),
                    ("hami.io/vgpu-devices-allocated", "GPUs that the pod has"),
                    ("hami.io/bind-time", "when it was bound"),
                    ("hami.io/bind-phase", "whether its GPUs were given"),
                )
            ),
            _devices(
                "muster.sh/decision",
                "position of the decision that bound the pod",
                writers=(MUSTER,),
                others="none: a hint only",
                bound="compared with the log",
            ),
            _devices(
                "muster.sh/withdrawn-decision",
                "position of a decision whose binding is not repeated",
                writers=(MUSTER,),
                others="",
                bound=_OWN_JOB,
            ),
            _own(
                "training.kubeflow.org/operator-name",
                "the Kubeflow training operator: muster states chips and rank",
                form=LABEL,
                kinds=(POD, WORKLOAD),
                writers=(CONTROLLER,),
                is_fixed_when_bound=True,
            ),
        ),
    ),
    Section(
        "Faults",
        (
            *(
                _own(key, effect, form=LABEL)
                for key, effect in (
                    ("fault-scheduling", "whether and how the job restarts after a fault"),
                    ("fault-retry-times", "how often it restarts because pods failed"),
                    ("pod-rescheduling", "whether only faulty pods restart"),
                    ("process-recover-enable", "whether processes restart within pods"),
                    ("subHealthyStrategy", "what is done when a device is sub-healthy"),
                    ("elastic-scheduling", "whether another controller handles faults"),
                    ("ome.io/inferenceservice", "an inference service: healthy pods stay"),
                    ("app", "names of inference controllers: healthy pods stay"),
                    ("training.kubeflow.org/replica-type", "which pod is the master"),
                )
            ),
            *(
                _own(key, effect, form=ANNOTATION)
                for key, effect in (
                    ("huawei.com/recover_policy_path", "whether healthy pods stay"),
                    ("ProcessRecoverStrategy", "whether another controller handles faults"),
                )
            ),
            *(
                _own(key, effect, form=form, kinds=(POD,), writers=(CONTROLLER,))
                for key, effect, form in (
                    ("fault-type", "the pod is faulty", LABEL),
                    ("needVolcanoOpe", "the pod is to be deleted", ANNOTATION),
                    ("backupNewPodName", "the pod that takes its place", ANNOTATION),
                    ("backupSourcePodName", "the pod whose place it takes", ANNOTATION),
                )
            ),
            _own(
                "huawei.com/pod-status",
                "fault of the pod, for a controller that restarts it",
                form=ANNOTATION,
                kinds=(POD,),
                writers=(MUSTER,),
            ),
        ),
    ),
    Section(
        "Disruption budgets and volumes",
        (
            *(
                Privilege(
                    key=key,
                    form=FIELD,
                    kinds=(BUDGET,),
                    writers=(USER,),
                    effect=f"how many pods an eviction may take; `{none}` allows none",
                    others="a budget that allows none keeps what is held above the share for ever",
                    bound="protects within what the queue deserves; refusals by a budget are bounded in time",
                    verb=SET,
                    harmless=("everything else",),
                )
                for key, none in (("spec.maxUnavailable", "0"), ("spec.minAvailable", "100%"))
            ),
            _own(
                "pv.kubernetes.io/bind-completed",
                "whether a claim is bound",
                form=ANNOTATION,
                kinds=(CLAIM,),
                writers=(CONTROLLER,),
            ),
            _own(
                "volume.beta.kubernetes.io/storage-class",
                "storage class of a claim",
                form=ANNOTATION,
                kinds=(CLAIM,),
            ),
        ),
    ),
    Section(
        "Queues, namespaces, priority classes",
        (
            _cluster(
                "spec of a Queue, status.state",
                FIELD,
                QUEUE,
                "weight, capability, deserved, guarantee, parent, whether it is open",
                "takes shares from other queues",
            ),
            *(
                _cluster(key, ANNOTATION, QUEUE, effect, "takes shares from other queues", verb=SET)
                for key, effect in (
                    ("volcano.sh/card.quota", "cards of the queue by model"),
                    ("volcano.sh/hierarchy", "path of the queue from the root"),
                    ("volcano.sh/hierarchy-weights", "weights on that path"),
                )
            ),
            *(
                _cluster(
                    key,
                    ANNOTATION,
                    QUEUE,
                    effect,
                    "uses a queue that is meant for others",
                    verb=SET,
                )
                for key, effect in (
                    ("muster.sh/namespaces", "names of the namespaces that may use the queue"),
                    (
                        "muster.sh/namespace-selector",
                        "labels of the namespaces that may use the queue",
                    ),
                )
            ),
            _cluster(
                "GroupOverride (muster.sh)",
                OBJECT,
                "GroupOverride",
                "pool, priority, weight, cap and position of a job, before what it states and beyond all bounds",
                "puts any job before all others",
                writers=(OPERATOR,),
            ),
            _cluster(
                "kubernetes.io/metadata.name",
                LABEL,
                NAMESPACE,
                "name of the namespace, for selectors",
                bound="the API server writes it",
            ),
            _cluster(
                "labels that a namespaceSelector names",
                LABEL,
                NAMESPACE,
                "which queues and pools the namespace may use; which namespaces pod affinity means",
                "uses a queue or pool that is meant for others",
            ),
            _cluster(
                "label that `tenants` of the policy names",
                LABEL,
                NAMESPACE,
                "the tenant of the namespace: shares of work, evictions, status writes and questions are by tenant",
                "takes several shares, or that of another tenant",
            ),
            _cluster(
                "value of a PriorityClass",
                FIELD,
                "PriorityClass",
                "order of jobs",
                "gets ahead of others",
            ),
        ),
    ),
    Section(
        "Nodes and their devices",
        (
            _cluster(
                "labels that a node selector, affinity or topology names",
                LABEL,
                NODE,
                "where pods fit; which nodes are of a pool",
                "gets pods of others, or keeps them away",
                writers=(ADMINISTRATOR, DEVICE_PLUGIN),
                bound="RBAC; NodeRestriction for kubelets",
            ),
            *(
                _cluster(
                    key,
                    LABEL,
                    NODE,
                    effect,
                    writers=(ADMINISTRATOR, DEVICE_PLUGIN),
                    bound="RBAC; NodeRestriction for kubelets",
                )
                for key, effect in (
                    ("kubernetes.io/hostname", "the node as a domain of topology"),
                    ("topology.kubernetes.io/zone", "its zone; on a volume: where it can be used"),
                    ("topology.kubernetes.io/region", "its region, likewise"),
                    ("failure-domain.beta.kubernetes.io/zone", "its zone under an older name"),
                    ("failure-domain.beta.kubernetes.io/region", "its region under an older name"),
                    ("muster.sh/dedicated", "whether other schedulers' pods on it are watched for"),
                    ("muster.sh/gpu-sharing", "whether its GPUs are shared"),
                    ("nvidia.com/gpu.product", "model of its GPUs"),
                    ("nvidia.com/gpu.memory", "memory of each"),
                    ("nvidia.com/gpu.replicas", "pods that share each"),
                    ("accelerator", "kind of its Ascend chips"),
                    ("accelerator-type", "product that its chips are in"),
                    ("infer-card-type", "kind of its inference cards"),
                    ("servertype", "kind of server"),
                    ("node.kubernetes.io/npu.chip.name", "model of its chips"),
                )
            ),
            *(
                _cluster(
                    key,
                    ANNOTATION,
                    NODE,
                    effect,
                    writers=(DEVICE_PLUGIN,),
                    bound="RBAC; NodeRestriction for kubelets",
                )
                for key, effect in (
                    (
                        "hami.io/node-nvidia-register",
                        "its GPUs, as HAMi's device plugin lists them",
                    ),
                    ("baseDeviceInfos", "all of its chips"),
                    ("superPodID", "its SuperPoD"),
                    ("serverIndex", "its number there"),
                )
            ),
            _cluster(
                "node.kubernetes.io/unschedulable",
                FIELD,
                NODE,
                "taint of a closed node",
                writers=(CONTROLLER,),
            ),
            _cluster("HyperNode", OBJECT, "HyperNode", "the network's topology"),
            _cluster(
                "mindx-dl-deviceinfo-*, mindx-dl-nodeinfo-*, cluster-info-*",
                OBJECT,
                "ConfigMap",
                "devices and faults of nodes",
                "devices look free, or faulty",
                writers=(DEVICE_PLUGIN,),
                bound="read in the namespace of the device stack only: RBAC there",
            ),
            _cluster(
                "basic-tor-node-cm",
                OBJECT,
                "ConfigMap",
                "leaf switches and the nodes under them",
                "changes where large jobs go",
                bound="read in one namespace only: RBAC there",
            ),
            *(
                _cluster(
                    key,
                    ANNOTATION,
                    "Lease",
                    effect,
                    "another value stops the scheduler until the loss that it states is accepted",
                    writers=(MUSTER,),
                    bound="RBAC on Leases in muster's own namespace: muster only",
                )
                for key, effect in (
                    ("muster.sh/log-anchor", "record that a successor's log must have"),
                    ("muster.sh/log", "which log that is"),
                )
            ),
            _cluster(
                "Binding",
                OBJECT,
                POD,
                "another scheduler's decision",
                "takes what others were given",
                writers=(MUSTER,),
                bound="RBAC on `pods/binding`: schedulers only",
            ),
        ),
    ),
)
"""All rows."""

ROWS: Final = tuple([row for section in SECTIONS for row in section.rows])

PREFIXES: Final = {
    "nvidia.com/mig-": "resources of parts of a GPU",
    "huawei.com/Ascend910-": "resources of parts of a chip",
    "huawei.com/Ascend310P-": "resources of parts of a chip",
    "huawei.com/": "domain of the resources of chips",
}
"""Beginnings of names that the code puts together, and what they are."""

OTHER_NAMES: Final = {
    "kubectl.kubernetes.io/last-applied-configuration": "stripped from the log's copy of objects",
    "k8s.io/initial-events-end": "mark in a watch, written by the API server",
    "muster.sh/scheduler": "`reportingController` of Events",
    "muster.sh/gpu-milli": "name of a charge",
    "muster.sh/gpu-memory": "name of a charge",
    "muster.sh/left-out: nested too deep": "mark in the log's copy of an object",
    "muster.sh/left-out: not a JSON object": "mark in the log's copy of an object",
    "muster.sh/left-out: too long": "mark in the log's copy of an object",
    "nvidia.com/gpu": "resource",
    "nvidia.com/gpu.shared": "resource",
    "nvidia.com/gpumem": "resource",
    "nvidia.com/gpumem-percentage": "resource",
    "nvidia.com/gpucores": "resource",
    "topology.muster.sh/switch": "label of a Node, shown in a view only",
    "topology.muster.sh/switch-position": "label of a Node, shown in a view only",
    "topology.muster.sh/superpod": "label of a Node, shown in a view only",
    "topology.muster.sh/rack": "label of a Node, shown in a view only",
    "topology.kubernetes.io/rack": "label of a Node, shown in a view only",
    "network.topology.kubernetes.io/leaf": "label of a Node, shown in a view only",
    "huawei.com/superpod-id": "label of a Node, shown in a view only",
}
"""Texts of the form of a key by which nothing is decided, and what they are."""


def privileged_keys(kind: str) -> tuple[Privilege, ...]:
    """Return the rows of annotations and labels of a kind that need the right `set`, in the order of the table."""
    return tuple(
        [row for row in ROWS if row.verb == SET and kind in row.kinds and row.form != FIELD]
    )


def naming_keys(kind: str, resource: str) -> tuple[Privilege, ...]:
    """Return the rows of annotations and labels of a kind that name a queue or a pool."""
    return tuple(
        [
            row
            for row in ROWS
            if row.resource == resource and kind in row.kinds and row.form != FIELD
        ]
    )


def fixed_keys() -> tuple[str, ...]:
    """Return the keys of a pod that must not change once it is bound, in the order of the table."""
    return tuple([row.key for row in ROWS if row.is_fixed_when_bound])


def set_by(writer: str) -> tuple[str, ...]:
    """Return the keys that need the right `set` and that a writer is meant to write."""
    return tuple([row.key for row in ROWS if row.verb == SET and writer in row.writers])
