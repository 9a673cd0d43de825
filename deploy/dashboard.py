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


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    """The middle and the slow end of a histogram."""
    rate = f"sum by (le) (rate({metric}_bucket[$__rate_interval]))"
    return tuple(
        (f"histogram_quantile({part}, {rate})", f"p{round(part * 100)}") for part in (0.5, 0.99)
    )


def cards(measure: str) -> str:
    """A measure of all cards, of which each replica tells."""
    return f'max by (card) (muster_cards{{measure="{measure}"}})'


def queue_cards(measure: str) -> str:
    """A measure of the queues that are chosen."""
    return (
        f'max by (queue, resource) (muster_queue_cards{{measure="{measure}", queue=~"$queue"}} > 0)'
    )


def queue_part(metric: str) -> str:
    """How much of what it may have of cpu or memory each chosen queue uses."""
    used, most = (
        f'max by (queue) ({metric}{{measure="{one}", queue=~"$queue"}})'
        for one in ("allocated", "limit")
    )
    return f"{used} / {most}"


DAY: Final = 'max by (card) (max_over_time(muster_cards{measure="total"}[1d]))'
"""The most cards that there were within a day."""


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Now",
        (
            Panel("Leaders", (("sum(muster_leader)", ""),), kind="stat", about="One is right."),
            Panel("Nodes", (('max(muster_objects{kind="Node"})', ""),), kind="stat"),
            Panel("Cards", ((f"sum({cards('total')})", ""),), kind="stat"),
            Panel("Cards free", ((f"sum({cards('free')})", ""),), kind="stat"),
            Panel(
                "Pod groups waiting",
                (("sum(max by (queue, code) (muster_pending_pod_groups))", ""),),
                kind="stat",
            ),
            Panel("Nodes in quarantine", (("max(muster_quarantined_nodes)", ""),), kind="stat"),
        ),
    ),
    (
        "Cards",
        (
            Panel("There are", ((cards("total"), "{{card}}"),), stacked=True),
            Panel("Allocated", ((cards("allocated"), "{{card}}"),), stacked=True),
            Panel(
                "Free",
                ((cards("free"), "{{card}}"),),
                about="Below 0 where pods hold cards that are not healthy, or gone.",
            ),
        ),
    ),
    (
        "Lost",
        (
            Panel(
                "Cards not healthy",
                ((f"{cards('total')} - {cards('healthy')}", "{{card}}"),),
                about="Their node says that it has them, and cannot give them away.",
            ),
            Panel(
                "Cards gone within a day",
                ((f"{DAY} - ({cards('total')} or {DAY} * 0)", "{{card}}"),),
                about="With their nodes, or cut up otherwise (MIG, MPS).",
            ),
            Panel("Nodes", (('max(muster_objects{kind="Node"})', "nodes"),)),
        ),
    ),
    (
        "Quotas beside the cluster",
        (
            Panel("Given out in quotas", ((cards("quota"), "{{card}}"),), stacked=True),
            Panel(
                "Over-commit",
                ((f"{cards('quota')} / {cards('total')}", "{{card}}"),),
                unit="percentunit",
                about="Above 100 % the quotas of queues exceed the cluster: the groups admitted last wait for nodes.",
            ),
            Panel(
                "Quota without a card",
                ((f"{cards('quota')} - {cards('total')} > 0", "{{card}}"),),
                about="What would have to be bought, or taken back.",
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel("Quota", ((queue_cards("capability"), "{{queue}} {{resource}}"),), stacked=True),
            Panel(
                "Used",
                ((queue_cards("allocated"), "{{queue}} {{resource}}"),),
                stacked=True,
            ),
            Panel(
                "Of the quota",
                (
                    (
                        f"{queue_cards('allocated')} / {queue_cards('capability')}",
                        "{{queue}} {{resource}}",
                    ),
                ),
                unit="percentunit",
            ),
            Panel(
                "Asked for",
                ((queue_cards("request"), "{{queue}} {{resource}}"),),
                about="What holds cards and what waits for them.",
            ),
        ),
    ),
    (
        "Queues: what is left, cpu and memory",
        (
            Panel(
                "Above the quota",
                (
                    (
                        f"{queue_cards('allocated')} - {queue_cards('limit')} > 0",
                        "{{queue}} {{resource}}",
                    ),
                ),
                about="The quota was lowered, or pods were bound by others. No pod is evicted for it.",
            ),
            Panel(
                "Reserved",
                ((queue_cards("inqueue"), "{{queue}} {{resource}}"),),
                about="For groups that are admitted and have no nodes yet.",
            ),
            Panel(
                "Cpu, of what the queue may use",
                ((queue_part("muster_queue_cpu_cores"), "{{queue}}"),),
                unit="percentunit",
            ),
            Panel(
                "Memory, of what the queue may use",
                ((queue_part("muster_queue_memory_bytes"), "{{queue}}"),),
                unit="percentunit",
            ),
        ),
    ),
    (
        "Waiting",
        (
            Panel(
                "Pod groups by reason",
                (
                    (
                        'sum by (code) (max by (queue, code) (muster_pending_pod_groups{queue=~"$queue"}))',
                        "{{code}}",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Pod groups by queue and reason",
                (
                    (
                        'max by (queue, code) (muster_pending_pod_groups{queue=~"$queue"})',
                        "{{queue}} {{code}}",
                    ),
                ),
                about="`muster queue show QUEUE` names them, `muster why` says what each waits for.",
            ),
            Panel(
                "Pods by queue",
                (('max by (queue) (muster_pending_pods{queue=~"$queue"})', "{{queue}}"),),
                stacked=True,
            ),
            Panel("How long pods waited", quantiles("muster_wait_seconds"), unit="s"),
            Panel(
                "Decisions",
                (("sum by (kind) (rate(muster_decisions_total[$__rate_interval]))", "{{kind}}"),),
                unit="ops",
            ),
        ),
    ),
    (
        "Time",
        (
            Panel("A cycle", quantiles("muster_cycle_seconds"), unit="s"),
            Panel("An append to the log", quantiles("muster_append_seconds"), unit="s"),
            Panel("A bind", quantiles("muster_bind_seconds"), unit="s"),
        ),
    ),
    (
        "The log",
        (
            Panel(
                "Records",
                (("sum(rate(muster_records_total[$__rate_interval]))", "written"),),
                unit="ops",
            ),
            Panel(
                "Lag of the standby",
                (("max by (instance) (muster_log_lag_seconds)", "{{instance}}"),),
                unit="s",
            ),
            Panel(
                "Outcomes",
                (
                    (
                        "sum by (kind, code) (rate(muster_outcomes_total[$__rate_interval]))",
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
                "Faults by effect",
                (("max by (effect) (muster_node_faults)", "{{effect}}"),),
                about="What reports, conditions and taints of nodes say.",
                stacked=True,
            ),
            Panel(
                "Faulty pods",
                (("max by (fault) (muster_faulty_pods)", "{{fault}}"),),
                about="Pods that a fault hit, whether or not anything is done about it.",
                stacked=True,
            ),
            Panel(
                "Pods deleted after faults",
                (
                    (
                        "sum by (scope) (increase(muster_rescheduled_pods_total[$__rate_interval]))",
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
                "Jobs not complete",
                (
                    ("max(muster_restarting_pod_groups)", "restarting"),
                    ("max(muster_stranded_pod_groups)", "below their minimum"),
                ),
            ),
        ),
    ),
    (
        "The API server",
        (
            Panel(
                "Requests by answer",
                (
                    (
                        "sum by (code) (rate(muster_api_requests_total[$__rate_interval]))",
                        "{{code}}",
                    ),
                ),
                unit="reqps",
            ),
            Panel(
                "Watches: since the last word",
                (("max by (resource) (muster_watch_age_seconds)", "{{resource}}"),),
                unit="s",
            ),
            Panel(
                "Watches: restarts",
                (
                    (
                        "sum by (resource, cause) (increase(muster_watch_restarts_total[$__rate_interval]))",
                        "{{resource}} {{cause}}",
                    ),
                ),
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
        "description": "Cards, queues, what waits and why, and how the scheduler itself does.",
        "tags": ["muster"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _queue()]},
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


def _queue() -> Json:
    return {
        "name": "queue",
        "type": "query",
        "label": "Queue",
        "datasource": SOURCE,
        "query": "label_values(muster_queue_cards, queue)",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _at(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}
