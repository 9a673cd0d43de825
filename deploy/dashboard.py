"""The Grafana dashboard, as rows of panels: a title, what it shows, and its queries."""

from typing import Final

from msgspec import Struct

Json = dict[str, object]

WIDTH: Final = 24
HEIGHT: Final = 8
SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}


class Panel(Struct, frozen=True):
    """A panel. `queries` are pairs of an expression and the legend of its series."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    stacked: bool = False


HERE: Final = 'cluster=~"$cluster"'
"""Selects what was recorded of the clusters that are chosen."""
OURS: Final = f'job="muster", {HERE}'
"""Selects what muster exports there."""
CHOSEN: Final = f'{HERE}, queue=~"$queue"'
"""Selects the queues that are chosen, too."""


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    """The middle and the slow end of a histogram, as recorded."""
    name = f"cluster_quantile:{metric}:histogram_quantile"
    return tuple(
        (f'{name}{{{HERE}, quantile="{quantile}"}}', legend)
        for quantile, legend in (("0.5", "half within"), ("0.99", "99 % within"))
    )


def cards(name: str, operation: str = "max") -> str:
    """Cards by model, as recorded: each replica exports them all."""
    return f"cluster_card:muster_{name}:{operation}{{{HERE}}}"


def queue_cards(measure: str) -> str:
    """Cards of the queues that are chosen, as recorded."""
    return f"(cluster_queue_resource:muster_queue_{measure}_cards:max{{{CHOSEN}}} > 0)"


def queue_part(unit: str) -> str:
    """How much of what it may use of cpu or memory each chosen queue uses."""
    used, most = (
        f'max by (cluster, queue) (muster_queue_{one}_{unit}{{{OURS}, queue=~"$queue"}})'
        for one in ("allocated", "limit")
    )
    return f"{used} / {most}"


def largest(metric: str, by: str = "cluster") -> str:
    """A figure that leader and standby both export."""
    return f"max by ({by}) ({metric}{{{OURS}}})"


def per_second(metric: str, by: str) -> str:
    """How fast a counter grows, over all replicas."""
    return f"sum by ({by}) (rate({metric}{{{OURS}}}[$__rate_interval]))"


NODES: Final = f'max by (cluster) (muster_objects{{{OURS}, kind="Node"}})'
DAY: Final = f"max_over_time(cluster_card:muster_cards:max{{{HERE}}}[1d])"
"""The most cards that there were within a day."""


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Overview",
        (
            Panel(
                "Leading daemons",
                ((f"sum by (cluster) (muster_leader{{{OURS}}})", ""),),
                kind="stat",
                about="Exactly one per cluster is right.",
            ),
            Panel("Nodes", ((NODES, ""),), kind="stat"),
            Panel("Cards", ((f"sum by (cluster) ({cards('cards')})", ""),), kind="stat"),
            Panel(
                "Free cards",
                ((f"sum by (cluster) ({cards('free_cards', 'min')})", ""),),
                kind="stat",
            ),
            Panel(
                "Pending pod groups",
                (
                    (
                        f"sum by (cluster) (cluster_queue:muster_pending_pod_groups:sum{{{HERE}}})",
                        "",
                    ),
                ),
                kind="stat",
            ),
            Panel(
                "Quarantined nodes",
                ((largest("muster_quarantined_nodes"), ""),),
                kind="stat",
                about="They get no pods for a while, as their kubelets rejected some.",
            ),
        ),
    ),
    (
        "Cards by model",
        (
            Panel(
                "All cards",
                ((cards("cards"), "{{card}}"),),
                about="Capacity of all nodes, healthy or not.",
                stacked=True,
            ),
            Panel("Allocated cards", ((cards("allocated_cards"), "{{card}}"),), stacked=True),
            Panel(
                "Free cards",
                ((cards("free_cards", "min"), "{{card}}"),),
                about="Healthy less allocated. Below 0 where pods hold cards that failed or are gone.",
            ),
        ),
    ),
    (
        "Unhealthy and lost cards",
        (
            Panel(
                "Unhealthy cards",
                ((f"{cards('cards')} - {cards('healthy_cards')}", "{{card}}"),),
                about="Capacity that the node does not offer as allocatable.",
            ),
            Panel(
                "Cards lost within the last day",
                ((f"{DAY} - ({cards('cards')} or {DAY} * 0)", "{{card}}"),),
                about="Their nodes are gone, or they were partitioned in another way (MIG, MPS).",
            ),
            Panel("Nodes", ((NODES, "nodes"),)),
        ),
    ),
    (
        "Quotas compared with the cluster",
        (
            Panel("Sum of all quotas", ((cards("quota_cards"), "{{card}}"),), stacked=True),
            Panel(
                "Quotas in per cent of the cards",
                ((f"{cards('quota_cards')} / {cards('cards')}", "{{card}}"),),
                unit="percentunit",
                about="Above 100 % the quotas exceed the cluster: the groups admitted last wait for nodes.",
            ),
            Panel(
                "Quota without a card",
                ((f"{cards('quota_cards')} - {cards('cards')} > 0", "{{card}}"),),
                about="Cards promised to queues that do not exist in the cluster.",
            ),
        ),
    ),
    (
        "Queues: cards",
        (
            Panel("Quota", ((queue_cards("capability"), "{{queue}} {{resource}}"),), stacked=True),
            Panel(
                "Allocated",
                ((queue_cards("allocated"), "{{queue}} {{resource}}"),),
                stacked=True,
            ),
            Panel(
                "Allocated in per cent of the quota",
                (
                    (
                        f"{queue_cards('allocated')} / {queue_cards('capability')}",
                        "{{queue}} {{resource}}",
                    ),
                ),
                unit="percentunit",
            ),
            Panel(
                "Requested",
                ((queue_cards("request"), "{{queue}} {{resource}}"),),
                about="By pods that run and pods that wait.",
            ),
        ),
    ),
    (
        "Queues: limits, CPU and memory",
        (
            Panel(
                "Cards above the limit",
                (
                    (
                        f"{queue_cards('allocated')} - {queue_cards('limit')} > 0",
                        "{{queue}} {{resource}}",
                    ),
                ),
                about="The quota was lowered, or another scheduler bound pods. No pod is evicted for it.",
            ),
            Panel(
                "Reserved cards",
                ((queue_cards("inqueue"), "{{queue}} {{resource}}"),),
                about="For groups that are admitted and have no nodes yet.",
            ),
            Panel(
                "CPU in per cent of the limit",
                ((queue_part("cpu_cores"), "{{queue}}"),),
                unit="percentunit",
            ),
            Panel(
                "Memory in per cent of the limit",
                ((queue_part("memory_bytes"), "{{queue}}"),),
                unit="percentunit",
            ),
        ),
    ),
    (
        "Waiting",
        (
            Panel(
                "Pending pod groups by reason",
                (
                    (
                        "sum by (cluster, code) (max by (cluster, queue, code) "
                        f'(muster_pending_pod_groups{{{OURS}, queue=~"$queue"}}))',
                        "{{code}}",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Pending pod groups by queue",
                ((f"cluster_queue:muster_pending_pod_groups:sum{{{CHOSEN}}}", "{{queue}}"),),
                about="`muster queue show QUEUE` names them, `muster why` says what each waits for.",
            ),
            Panel(
                "Pending pods by queue",
                ((f"cluster_queue:muster_pending_pods:max{{{CHOSEN}}}", "{{queue}}"),),
                stacked=True,
            ),
            Panel(
                "Waiting time of placed pods",
                tuple(
                    (
                        "cluster_queue_quantile:muster_wait_seconds:histogram_quantile"
                        f'{{{CHOSEN}, quantile="{quantile}"}}',
                        f"{{{{queue}}}} {legend}",
                    )
                    for quantile, legend in (("0.5", "half within"), ("0.9", "90 % within"))
                ),
                unit="s",
                about="From creation to placement, of the pods placed within the last hour.",
            ),
            Panel(
                "Decisions per second",
                ((per_second("muster_decisions_total", "cluster, kind"), "{{kind}}"),),
                unit="ops",
            ),
        ),
    ),
    (
        "Latency",
        (
            Panel("Scheduling cycle", quantiles("muster_cycle_seconds"), unit="s"),
            Panel("Append to the log", quantiles("muster_append_seconds"), unit="s"),
            Panel("Binding", quantiles("muster_bind_seconds"), unit="s"),
        ),
    ),
    (
        "Log",
        (
            Panel(
                "Records written per second",
                ((per_second("muster_records_total", "cluster"), "written"),),
                unit="ops",
            ),
            Panel(
                "Lag of the standby",
                ((largest("muster_log_lag_seconds", "cluster, instance"), "{{instance}}"),),
                unit="s",
            ),
            Panel(
                "Results of bindings, evictions and updates per second",
                (
                    (
                        per_second("muster_outcomes_total", "cluster, kind, code"),
                        "{{kind}} {{code}}",
                    ),
                ),
                unit="ops",
            ),
        ),
    ),
    (
        "Faults",
        (
            Panel(
                "Faults of nodes and devices",
                ((largest("muster_node_faults", "cluster, effect"), "{{effect}}"),),
                about="From reports, conditions and taints of nodes.",
                stacked=True,
            ),
            Panel(
                "Pods affected by faults",
                ((largest("muster_faulty_pods", "cluster, fault"), "{{fault}}"),),
                about="Whether or not they are moved.",
                stacked=True,
            ),
            Panel(
                "Pods deleted after faults",
                (
                    (
                        "sum by (cluster, scope) "
                        f"(increase(muster_rescheduled_pods_total{{{OURS}}}[$__rate_interval]))",
                        "{{scope}}",
                    ),
                ),
            ),
            Panel(
                "Time until a job is complete again",
                quantiles("muster_restart_seconds"),
                unit="s",
            ),
            Panel(
                "Incomplete jobs",
                (
                    (largest("muster_restarting_pod_groups"), "restarting"),
                    (largest("muster_stranded_pod_groups"), "below their minimum"),
                ),
            ),
        ),
    ),
    (
        "API server and process",
        (
            Panel(
                "API requests by status",
                (
                    (
                        "sum by (cluster, code) "
                        f"(cluster_verb_resource_code:muster_api_requests:rate5m{{{HERE}}})",
                        "{{code}}",
                    ),
                ),
                unit="reqps",
            ),
            Panel(
                "Time since the last watch event",
                ((largest("muster_watch_age_seconds", "cluster, kind"), "{{kind}}"),),
                unit="s",
            ),
            Panel(
                "Watches that ended",
                (
                    (
                        "sum by (cluster, kind, cause) "
                        f"(increase(muster_watch_restarts_total{{{OURS}}}[$__rate_interval]))",
                        "{{kind}} {{cause}}",
                    ),
                ),
            ),
            Panel(
                "Memory",
                (
                    (
                        largest("process_resident_memory_bytes", "cluster, instance"),
                        "{{instance}}",
                    ),
                ),
                unit="bytes",
            ),
            Panel(
                "CPU",
                ((per_second("process_cpu_seconds_total", "cluster, instance"), "{{instance}}"),),
                about="In cores.",
            ),
        ),
    ),
)


def document() -> Json:
    """The dashboard as Grafana imports it."""
    panels: list[Json] = []
    top = 0
    for title, row in ROWS:
        panels += [
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": _at(0, top, WIDTH, 1)}
        ]
        height = HEIGHT // 2 if row[0].kind == "stat" else HEIGHT
        width = WIDTH // len(row)
        for index, panel in enumerate(row):
            place = _at(index * width, top + 1, width, height)
            panels += [{"id": len(panels) + 1, "gridPos": place, **_panel(panel)}]
        top += 1 + height
    return {
        "uid": "muster",
        "title": "muster",
        "description": "Cards, queues, pending pod groups with the reasons, and the health of the scheduler.",
        "tags": ["muster"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _cluster(), _queue()]},
        "panels": panels,
    }


def _panel(panel: Panel) -> Json:
    custom: Json = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def _datasource() -> Json:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _cluster() -> Json:
    """The label that Prometheus gives the series of a cluster; without such a label all of them are chosen."""
    return _choice("cluster", "Cluster", 'label_values(muster_leader{job="muster"}, cluster)')


def _queue() -> Json:
    series = f"cluster_queue_resource:muster_queue_allocated_cards:max{{{HERE}}}"
    return _choice("queue", "Queue", f"label_values({series}, queue)")


def _choice(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "label": label,
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _at(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}
