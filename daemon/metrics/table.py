"""Every metric that muster exports. Nothing is exported that is not here.

Names and labels are a public contract: dashboards and alerts are made of them. Names follow the practice
of Prometheus: base units (seconds, bytes, cores), `_total` for what only grows. No label names a pod, and
every label has a bound: it comes from this release's code, or from objects of which a cluster has few
(queues, card models). What an API server may invent, such as a reason, is mapped onto a closed list.

Figures of State (queues, cards, waiting pod groups) are read when they are asked for, so a queue that is deleted
leaves no series behind; what is counted, is counted once it is durable.
"""

from typing import Final

from msgspec import Struct


class Metric(Struct, frozen=True):
    """A metric: its name, `counter`, `gauge` or `histogram`, what it says, and its labels."""

    name: str
    kind: str
    help: str
    labels: dict[str, str] = {}
    """Label to what its values are."""
    buckets: tuple[float, ...] = ()
    """Upper bounds, in the unit of the name; of a histogram only."""


_TURN: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CALL: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PATIENCE: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400, 604800)

_QUEUE: Final = "the queue"
_MEASURE: Final = (
    "`capability` (absent where it is without limit), `guarantee`, `deserved`, `allocated`, `inqueue`, "
    "`request`, `elastic`, as in the view `queue_quota`; `limit`, what it may use now, which is its "
    "capability less what is guaranteed to others, or its fair share"
)
_KIND: Final = "the Kubernetes kind"

_LOOP: Final = (
    Metric(
        "muster_cycle_seconds",
        "histogram",
        "A cycle, from its beginning until its decisions are durable.",
        buckets=_TURN,
    ),
    Metric(
        "muster_decide_seconds",
        "histogram",
        "The part of a cycle in which it is decided.",
        buckets=_TURN,
    ),
    Metric(
        "muster_cycle_under_way_seconds",
        "gauge",
        "How long the cycle, or the intake of a batch, that is under way has taken; 0 where none is. While one is "
        "under way, figures of queues, cards, pods and objects are those of the last scrape that met none.",
    ),
    Metric(
        "muster_append_seconds",
        "histogram",
        "An append to the log, from the call until it is durable.",
        buckets=_TURN,
    ),
    Metric(
        "muster_intake_sightings",
        "gauge",
        "What watches have shown and the loop has not taken in yet.",
    ),
    Metric(
        "muster_bind_seconds",
        "histogram",
        "A binding, from the request to its answer, retries included.",
        {"result": "`bound`, `failed` or `unknown`"},
        _CALL,
    ),
    Metric(
        "muster_restart_seconds",
        "histogram",
        "The restart of a job after a fault, from the first deletion of a pod until it ended.",
        {"result": "`Restarted`, `TimedOut` or `Replaced`"},
        _PATIENCE,
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
        "How long a pod has been there when it is decided where it goes.",
        buckets=_PATIENCE,
    ),
    Metric(
        "muster_effects_in_flight",
        "gauge",
        "Requests decided, and not answered yet.",
    ),
    Metric(
        "muster_leaf_switches",
        "gauge",
        "Leaf switches of the map, by what they are for jobs that are placed by them.",
        {
            "state": "`idle`, `shared`, `exclusive`, or `unhealthy` (shared, above the limit of some job)"
        },
    ),
    Metric(
        "muster_node_faults",
        "gauge",
        "Faults of nodes and of their devices, as reports, conditions and taints say.",
        {
            "effect": "what follows for pods: `NodeUnhealthy`, `CardUnhealthy`, `CardNetworkUnhealthy`, "
            "`SubHealthFault`, `PreSeparate`, `Recorded`"
        },
    ),
    Metric(
        "muster_faulty_pods",
        "gauge",
        "Pods on nodes that a fault hit, whether or not anything is done about it.",
        {
            "fault": "`NodeUnhealthy`, `CardUnhealthy`, `SubHealthFault`, `pod-failed`, `RelationFaultSeparate`, `software`"
        },
    ),
    Metric(
        "muster_restarting_pod_groups",
        "gauge",
        "Jobs of which pods were deleted after a fault, and that are not complete again.",
    ),
    Metric(
        "muster_stranded_pod_groups",
        "gauge",
        "Gangs that run below their minimum, where the policy moves pods after faults.",
    ),
    Metric(
        "muster_commitments",
        "gauge",
        "Bindings decided, of which no outcome is in the log yet.",
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
        "What came of decisions.",
        {
            "kind": "the kind of outcome, without its version",
            "code": "the reason of a failure, from a closed list, `Other` for all else; empty where "
            "there is none",
        },
    ),
    Metric(
        "muster_no_objects_total",
        "counter",
        "What the API server showed and is no object with a kind, a name and a UID, or that muster failed to take in.",
    ),
    Metric(
        "muster_foreign_placements_total",
        "counter",
        "Pods that someone else put on a node dedicated to muster.",
    ),
    Metric(
        "muster_node_rejections_total",
        "counter",
        "Pods that a kubelet turned away after muster had bound them.",
    ),
    Metric("muster_log_position", "gauge", "Position of the last record that this process knows."),
    Metric(
        "muster_log_lag_records",
        "gauge",
        "On a standby: records of the log that it has not read yet.",
    ),
    Metric(
        "muster_log_lag_seconds",
        "gauge",
        "On a standby: how long ago it knew all of the log; 0 where it does.",
    ),
)

_STATE: Final = (
    Metric(
        "muster_queue_cards",
        "gauge",
        "Whole cards of a queue, and whatever else is counted beside cpu and memory.",
        {
            "queue": _QUEUE,
            "resource": "the card, several joined by `|` for a choice not made yet, or the resource name",
            "measure": _MEASURE,
        },
    ),
    Metric(
        "muster_queue_cpu_cores",
        "gauge",
        "Processor cores of a queue.",
        {"queue": _QUEUE, "measure": _MEASURE},
    ),
    Metric(
        "muster_queue_memory_bytes",
        "gauge",
        "Memory of a queue.",
        {"queue": _QUEUE, "measure": _MEASURE},
    ),
    Metric(
        "muster_cards",
        "gauge",
        "Cards of all nodes.",
        {
            "card": "the card model",
            "measure": "`total` (capacity), `healthy` (allocatable), `allocated`, `free` (healthy - "
            "allocated, below 0 where cards were lost under running pods), `quota` (of all queues "
            "together, which may be more than there are)",
        },
    ),
    Metric(
        "muster_pending_pod_groups",
        "gauge",
        "Pod groups of which something waits.",
        {
            "queue": _QUEUE,
            "code": "why, as the last refusal says; `NotTried` before there is one, `BackingOff` "
            "after failed bindings",
        },
    ),
    Metric("muster_pending_pods", "gauge", "Pods that wait for a node.", {"queue": _QUEUE}),
    Metric(
        "muster_quarantined_nodes",
        "gauge",
        "Nodes that are given nothing for a while, as their kubelets turned pods away.",
    ),
    Metric(
        "muster_unreadable_objects",
        "gauge",
        "Objects of which only the name counts, as reading them raised. Each is a bug.",
        {"kind": _KIND},
    ),
    Metric(
        "muster_objects",
        "gauge",
        "Objects in State.",
        {"kind": "`Node`, `Pod`, `PodGroup` or `Queue`"},
    ),
)

_SHORE: Final = (
    Metric("muster_watch_open", "gauge", "Whether the kind is being watched.", {"resource": _KIND}),
    Metric(
        "muster_watch_age_seconds",
        "gauge",
        "Since the watch last showed anything, bookmarks included.",
        {"resource": _KIND},
    ),
    Metric("muster_watch_events_total", "counter", "Events shown.", {"resource": _KIND}),
    Metric(
        "muster_watch_dropped_total",
        "counter",
        "Events dropped as they were no news: duplicates and older revisions.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_watch_malformed_total",
        "counter",
        "Revisions shown that cannot be compared.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_watch_requests_total",
        "counter",
        "Requests made to list or watch the kind.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_watch_restarts_total",
        "counter",
        "Watches that ended.",
        {
            "resource": _KIND,
            "cause": "`ended`, `cut`, `stalled`, `expired`, `failed`, `unauthorized`, `forbidden`, "
            "`revision_went_back`; `other`",
        },
    ),
    Metric(
        "muster_revisions_went_back_total",
        "counter",
        "Times that the API server was found to be set back (etcd restored from an older snapshot); everything "
        "is listed again then.",
    ),
    Metric(
        "muster_full_lists_total",
        "counter",
        "Lists of a whole kind beside its watch, compared with the log.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_full_list_differences_total",
        "counter",
        "Objects that such a list showed otherwise than the log.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_api_requests_total",
        "counter",
        "Requests to the API server that were answered, or will not be.",
        {
            "call": "verb and resource, such as `create pods/binding`; `other`",
            "code": "the HTTP status; `none` where there was no answer",
        },
    ),
    Metric(
        "muster_api_request_seconds",
        "histogram",
        "A request to the API server, up to its whole answer.",
        {"call": "as above"},
        _CALL,
    ),
    Metric(
        "muster_events_dropped_total",
        "counter",
        "Kubernetes Events that were not written: too many, or the API server did not take them.",
    ),
)

_PROCESS: Final = (
    Metric(
        "muster_internal_errors_total",
        "counter",
        "Exceptions out of the code of muster that were held to one object. Each is a bug.",
        {
            "activity": "what was being done: an action of the policy, `apply` (a change of State), `report` (an answer of the API server), "
            "`requests` (what to ask of it), `views` (rows), `listeners` (Events, stderr, metrics)"
        },
    ),
    Metric("muster_leader", "gauge", "1 on the daemon that decides, 0 on a standby."),
    Metric("muster_epoch", "gauge", "The epoch in which this process writes; 0 for none."),
    Metric("muster_ready", "gauge", "1 where `/readyz` answers 200."),
    Metric(
        "muster_not_ready",
        "gauge",
        "Reasons of `/readyz` that stand, counted.",
        {"reason": "the reason, as listed above, without what follows its slash"},
    ),
    Metric(
        "muster_clock_ahead_seconds",
        "gauge",
        "How far the time of the log is ahead of the machine's clock; below 0 where it is behind.",
    ),
    Metric(
        "muster_policy_stale",
        "gauge",
        "1 while the policy file has changed and cannot be read: the policy in force is an older one.",
    ),
    Metric(
        "muster_stale_reports",
        "gauge",
        "ConfigMaps with device reports that were not updated for too long; their devices stay as last reported.",
        {"resource": _KIND},
    ),
    Metric(
        "muster_http_refused_total",
        "counter",
        "HTTP connections and requests that were refused or broken off.",
        {
            "reason": "`connections` or `peer` (too many, in all or from one address), `head` (no whole "
            "request in time), `answer` (not taken in time), `host` (another Host header)"
        },
    ),
    Metric(
        "muster_build_info",
        "gauge",
        "Always 1.",
        {"version": "the release", "decider": "the version of the deciding code"},
    ),
    Metric("muster_process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes."),
    Metric("muster_process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
    Metric(
        "muster_process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    ),
    Metric(
        "muster_process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
    ),
    Metric("muster_process_open_fds", "gauge", "Number of open file descriptors."),
    Metric("muster_process_max_fds", "gauge", "Maximum number of open file descriptors."),
)

SECTIONS: Final = {
    "The loop and its effects": _LOOP,
    "The log": _LOG,
    "Queues, cards, and waiting pod groups": _STATE,
    "The API server": _SHORE,
    "The process": _PROCESS,
}
"""Title to the metrics below it."""

METRICS: Final = {metric.name: metric for section in SECTIONS.values() for metric in section}
"""All of them, by name."""
