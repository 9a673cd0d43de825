"""Every metric that muster exports. Nothing is exported that is not here.

Names and labels are a public contract: dashboards and alerts are made of them. They follow the conventions of
Prometheus and of Kubernetes' own components: base units (seconds, bytes, cores), `_total` for what only grows, one
quantity a metric (the sum over its labels means something), `verb` and `resource` on requests to the API server as in
`apiserver_request_total`, `code` as in client-go's `rest_client_requests_total`, and `process_*` without a prefix.

No label names a pod, and every label has a bound: it comes from this release's code, or from objects of which a cluster
has few (queues, card models). What tenants or an API server may invent, such as the name of a queue that does not
exist, of a resource that no node has, or a reason, becomes `other`; so do the queues beyond the first 1,000.

Figures of State (queues, cards, waiting pod groups) are read when they are asked for, so a queue that is deleted
leaves no series behind; what is counted, is counted once it is durable.
"""

from typing import Final

from msgspec import Struct

from features.table import FEATURES
from projections.feature_documents import Gauge


class Metric(Struct, frozen=True):
    """A metric: its name, `counter`, `gauge` or `histogram`, what it says, and its labels."""

    name: str
    kind: str
    help: str
    labels: dict[str, str] = {}
    """Label to what its values are."""
    buckets: tuple[float, ...] = ()
    """Upper bounds, in the unit of the name; of a histogram only."""


_CYCLE: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
"""A cycle without a change takes 1 ms, one of many gangs 0.5 s; the alert is at 2 s."""
_APPEND: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""As in client-go's `rest_client_request_duration_seconds`."""
_BIND: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RESTART: Final = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 14400, 86400)
"""Devices and containers of a job take seconds to minutes to stop and to start."""
_WAIT: Final = (1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800)
"""A pod's creation time is in whole seconds, so that less than one second cannot be told."""

_QUEUE: Final = (
    "the queue; `other` for names without a Queue object, and for queues beyond the first 1,000"
)
_KIND: Final = "the Kubernetes kind"
_API_CALL: Final = {
    "verb": "`GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `DELETE`; `other`",
    "resource": "the plural, such as `pods`, with its group where two resources share it; `other`",
    "subresource": "such as `binding`; empty for the object itself",
}

_CARD: Final = "the card model"
_RESOURCE: Final = (
    "the card model or the resource name; `choice` for pods that accept several models and have no node yet; `other` for "
    "resources that no node has and no Queue names"
)

QUEUE_MEASURES: Final = {
    "capability": "that a queue may use, as its object says; absent where it is without limit",
    "limit": "that a queue may use now: its capability less what is guaranteed to other queues, or its fair share; "
    "absent where it is without limit",
    "guarantee": "that are kept for a queue",
    "deserved": "that a queue deserves: other queues may reclaim what it uses above that",
    "allocated": "that the pods of a queue, and of all queues below it, hold",
    "inqueue": "that are reserved for admitted pod groups of a queue, and of all queues below it, that have no nodes yet",
    "request": "that the pods of a queue, and of all queues below it, hold or wait for",
    "elastic": "that the pods of a queue, and of all queues below it, hold above the minimum of their groups",
}
"""What is measured of a queue, as in the view `queue_quota`, which has no `limit`."""


def _queue_metrics() -> tuple[Metric, ...]:
    """One metric for each measure of a queue in each unit."""
    units = (
        (
            "cards",
            "Cards, and other countable resources,",
            {"queue": _QUEUE, "resource": _RESOURCE},
        ),
        ("cpu_cores", "Processor cores", {"queue": _QUEUE}),
        ("memory_bytes", "Bytes of memory", {"queue": _QUEUE}),
    )
    return tuple(
        Metric(f"muster_queue_{measure}_{unit}", "gauge", f"{noun} {text}.", labels)
        for unit, noun, labels in units
        for measure, text in QUEUE_MEASURES.items()
    )


_LOOP: Final = (
    Metric(
        "muster_cycle_seconds",
        "histogram",
        "A scheduling cycle, from its start until its decisions are durable.",
        buckets=_CYCLE,
    ),
    Metric(
        "muster_decide_seconds",
        "histogram",
        "The part of a cycle that computes the decisions.",
        buckets=_CYCLE,
    ),
    Metric(
        "muster_cycle_under_way_seconds",
        "gauge",
        "Age of the cycle, or of the intake of a batch, that is running; 0 while none is. Meanwhile the figures of "
        "queues, cards, pods and objects are those of the last scrape before it.",
    ),
    Metric(
        "muster_append_seconds",
        "histogram",
        "An append to the log, from the call until it is durable.",
        buckets=_APPEND,
    ),
    Metric(
        "muster_queued_watch_events",
        "gauge",
        "Watch events received and not yet taken in by the loop.",
    ),
    Metric(
        "muster_bind_seconds",
        "histogram",
        "A binding, from the request to its answer, retries included.",
        {"result": "`bound`, `failed` or `unknown`"},
        _BIND,
    ),
    Metric(
        "muster_restart_seconds",
        "histogram",
        "The restart of a job after a fault, from the first deletion of a pod until it ended.",
        {"result": "`Restarted`, `TimedOut` or `Replaced`"},
        _RESTART,
    ),
    Metric(
        "muster_rescheduled_pods_total",
        "counter",
        "Pods deleted after faults.",
        {
            "scope": "`pod`: faulty pods only; `super_pod`: those of their logical SuperPoD too; `job`: all of the job"
        },
    ),
    Metric(
        "muster_wait_seconds",
        "histogram",
        "How long a pod has waited when its node is decided, from its creation.",
        {"queue": _QUEUE},
        _WAIT,
    ),
    Metric(
        "muster_effects_in_flight",
        "gauge",
        "Requests that carry out decisions and are not answered yet.",
    ),
    Metric(
        "muster_status_updates_queued",
        "gauge",
        "Updates of conditions, counts and allocated amounts that are due and not begun.",
    ),
    Metric(
        "muster_status_updates_dropped",
        "gauge",
        "Such updates since the start that were not made, because their object was gone or changed first.",
    ),
    Metric(
        "muster_status_updates_put_off",
        "gauge",
        "Times since the start that such an update was put off, because the last one of its object took long or was lost.",
    ),
    Metric(
        "muster_status_objects_resting",
        "gauge",
        "Updates of objects that took long or were lost the last time, and are not repeated at once.",
    ),
    Metric(
        "muster_events_queued",
        "gauge",
        "Kubernetes Events that wait to be written.",
    ),
    Metric(
        "muster_watch_lag_seconds",
        "gauge",
        "How late the events of a watch come after the objects were written; absent while few come.",
        {"kind": _KIND},
    ),
    *(Metric(one.metric, "gauge", one.help, {one.label: one.values}) for one in FEATURES.of(Gauge)),
    Metric(
        "muster_node_faults",
        "gauge",
        "Faults of nodes and of their devices, from reports, conditions and taints.",
        {
            "effect": "what follows for pods: `NodeUnhealthy`, `CardUnhealthy`, `CardNetworkUnhealthy`, "
            "`SubHealthFault`, `PreSeparate`, `Recorded`"
        },
    ),
    Metric(
        "muster_faulty_pods",
        "gauge",
        "Pods affected by a fault, whether or not they are moved.",
        {
            "fault": "`NodeUnhealthy`, `CardUnhealthy`, `SubHealthFault`, `pod-failed`, `RelationFaultSeparate`, `software`"
        },
    ),
    Metric(
        "muster_restarting_pod_groups",
        "gauge",
        "Jobs that lost pods to a fault and are not complete again.",
    ),
    Metric(
        "muster_stranded_pod_groups",
        "gauge",
        "Gangs that run below their minimum, where the policy moves pods after faults.",
    ),
    Metric(
        "muster_commitments",
        "gauge",
        "Bindings decided whose outcome is not in the log yet.",
    ),
)

_LOG: Final = (
    Metric(
        "muster_records_total",
        "counter",
        "Records appended to the log by this process.",
        {"kind": "the kind of record, without its version"},
    ),
    Metric(
        "muster_decisions_total",
        "counter",
        "Decisions; a gang is one.",
        {
            "kind": "`enqueue`, `bind`, `pipeline`, `withdraw`, `evict`, `refuse`, `config_invalid`, `action_failed`, `defer`, as in the "
            "view `decision`"
        },
    ),
    Metric(
        "muster_placements_total",
        "counter",
        "Pods for which a node was decided.",
        {"queue": _QUEUE},
    ),
    Metric(
        "muster_outcomes_total",
        "counter",
        "Results of requests to carry out decisions.",
        {
            "kind": "the kind of outcome, without its version",
            "code": "the reason of a failure, from a closed list, `Other` for all else; empty where "
            "there is none",
        },
    ),
    Metric(
        "muster_no_objects_total",
        "counter",
        "Watch events and list items without a kind, a name or a UID, or that muster failed to take in.",
    ),
    Metric(
        "muster_foreign_placements_total",
        "counter",
        "Pods that another scheduler placed on a node dedicated to muster.",
    ),
    Metric(
        "muster_node_rejections_total",
        "counter",
        "Pods that a kubelet rejected after muster had bound them.",
    ),
    Metric(
        "muster_log_position",
        "gauge",
        "Position of the last record that this process has read or written.",
    ),
    Metric(
        "muster_log_anchor_info",
        "gauge",
        "Always 1: the head of the log that was anchored last (`anchor_seconds`), for `muster log verify --expect`. One series at a time.",
        {"position": "the position", "digest": "the digest of the record there"},
    ),
    Metric(
        "muster_log_lag_records",
        "gauge",
        "On a standby: records of the log that it has not read yet.",
    ),
    Metric(
        "muster_log_lag_seconds",
        "gauge",
        "On a standby: time since it had read the whole log; 0 while it has.",
    ),
)

_STATE: Final = (
    *_queue_metrics(),
    Metric(
        "muster_cards",
        "gauge",
        "Cards of all nodes, healthy or not (capacity).",
        {"card": _CARD},
    ),
    Metric(
        "muster_healthy_cards",
        "gauge",
        "Cards of all nodes that can be given to pods (allocatable).",
        {"card": _CARD},
    ),
    Metric("muster_allocated_cards", "gauge", "Cards that pods hold.", {"card": _CARD}),
    Metric(
        "muster_free_cards",
        "gauge",
        "Healthy cards less allocated ones; below 0 where cards were lost under running pods.",
        {"card": _CARD},
    ),
    Metric(
        "muster_quota_cards",
        "gauge",
        "Cards that the quotas of all queues add up to, which may be more than there are.",
        {"card": _CARD},
    ),
    Metric(
        "muster_pending_pod_groups",
        "gauge",
        "Pod groups with pods that wait for a node.",
        {
            "queue": _QUEUE,
            "code": "why, as the last refusal says; `NotTried` before there is one, `BackingOff` "
            "after failed bindings",
        },
    ),
    Metric("muster_pending_pods", "gauge", "Pods that wait for a node.", {"queue": _QUEUE}),
    Metric(
        "muster_pods_without_scale_up",
        "gauge",
        "Pods that wait although nodes have room by the rules of Kubernetes: only the shape of devices, a plugin or the "
        "network excludes these, so that a cluster autoscaler adds no node.",
        {"queue": _QUEUE},
    ),
    Metric(
        "muster_quarantined_nodes",
        "gauge",
        "Nodes that are closed to pods for a while, as their kubelets rejected some.",
        {
            "scope": "`namespace`: closed to pods of the tenants (namespaces, unless the policy names a label) whose pods were rejected; `all`: to "
            "all pods, as pods of several tenants were rejected and none was admitted since"
        },
    ),
    Metric(
        "muster_queues_without_guarantee",
        "gauge",
        "Queues whose guarantee cannot be kept in the cluster as it is, by alone or together being more than it has.",
    ),
    Metric(
        "muster_unreadable_objects",
        "gauge",
        "Objects that muster failed to read, so that only their names count. Each is a bug.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_objects",
        "gauge",
        "Objects that muster knows.",
        {"kind": "`Node`, `Pod`, `PodGroup` or `Queue`"},
    ),
)

_API_SERVER: Final = (
    Metric("muster_watch_open", "gauge", "1 while the kind is watched.", {"kind": _KIND}),
    Metric(
        "muster_watch_age_seconds",
        "gauge",
        "Time since the last event of the watch, bookmarks included.",
        {"kind": _KIND},
    ),
    Metric("muster_watch_events_total", "counter", "Events received.", {"kind": _KIND}),
    Metric(
        "muster_watch_dropped_total",
        "counter",
        "Events dropped as duplicates or older revisions.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_watch_malformed_total",
        "counter",
        "Events with a resource version that cannot be compared.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_watch_restarts_total",
        "counter",
        "Watches that ended.",
        {
            "kind": _KIND,
            "cause": "`ended`, `cut`, `stalled`, `expired`, `failed`, `unauthorized`, `forbidden`, "
            "`revision_went_back`; `other`",
        },
    ),
    Metric(
        "muster_revisions_went_back_total",
        "counter",
        "Times that the API server was found to be restored from an older etcd snapshot; everything is listed again "
        "then.",
    ),
    Metric(
        "muster_full_lists_total",
        "counter",
        "Complete lists of a kind beside its watch, compared with the log.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_full_list_differences_total",
        "counter",
        "Objects that differed between such a list and the log.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_api_requests_total",
        "counter",
        "Requests to the API server, retries included.",
        {**_API_CALL, "code": "the HTTP status; `<error>` where there was no answer"},
    ),
    Metric(
        "muster_api_request_duration_seconds",
        "histogram",
        "A request to the API server, from sending it to the headers of its answer.",
        _API_CALL,
        _REQUEST,
    ),
    Metric(
        "muster_events_dropped_total",
        "counter",
        "Kubernetes Events that were not written: too many, or refused by the API server.",
    ),
)

_PROCESS: Final = (
    Metric(
        "muster_internal_errors_total",
        "counter",
        "Exceptions in the code of muster, each contained to one object. Each is a bug.",
        {
            "activity": "what was being done: an action of the policy, `apply` (a change of State), `report` (an answer of the API server), "
            "`requests` (what to ask of it), `views` (rows), `listeners` (Events, stderr, metrics)"
        },
    ),
    Metric("muster_leader", "gauge", "1 on the daemon that decides, a shadow too; 0 on a standby."),
    Metric("muster_epoch", "gauge", "The epoch with which this process writes; 0 for none."),
    Metric("muster_ready", "gauge", "1 where `/readyz` answers 200."),
    Metric(
        "muster_not_ready",
        "gauge",
        "Number of reasons for which `/readyz` reports that the daemon is not ready.",
        {"reason": "the reason, as listed above, without what follows its slash"},
    ),
    Metric(
        "muster_clock_ahead_seconds",
        "gauge",
        "How far the time of the log is ahead of the machine's clock; below 0 where it is behind.",
    ),
    Metric(
        "muster_unknown_decisions",
        "gauge",
        "Bound pods of ours that name a decision which the log does not have, as after the loss of its end. A hint: the owner of a pod can "
        "write its annotation. Counted once a minute.",
    ),
    Metric(
        "muster_policy_stale",
        "gauge",
        "1 while the policy file has changed and cannot be read, so that the previous policy is in force.",
    ),
    Metric(
        "muster_stale_reports",
        "gauge",
        "ConfigMaps with device reports that were not updated for too long; their devices stay as last reported.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_http_refused_total",
        "counter",
        "HTTP connections and requests that were refused or cut off.",
        {
            "reason": "`connections` or `peer` (too many, in all or from one address), `handshakes` (too many TLS handshakes in "
            "a second), `handshake` (no TLS handshake in time), `head` (no whole request in time), `answer` (not taken in time), `host` (another Host header)"
        },
    ),
    Metric(
        "muster_build_info",
        "gauge",
        "Always 1.",
        {"version": "the release", "decider": "the version of the deciding code"},
    ),
    Metric("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes."),
    Metric("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
    Metric(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    ),
    Metric(
        "process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
    ),
    Metric("process_open_fds", "gauge", "Number of open file descriptors."),
    Metric("process_max_fds", "gauge", "Maximum number of open file descriptors."),
)

SECTIONS: Final = {
    "The loop and its effects": _LOOP,
    "The log": _LOG,
    "Queues, cards, and waiting pod groups": _STATE,
    "The API server": _API_SERVER,
    "The process": _PROCESS,
}
"""Title to the metrics below it."""

METRICS: Final = {metric.name: metric for section in SECTIONS.values() for metric in section}
"""All of them, by name."""
