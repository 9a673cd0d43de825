"""Rules and dashboard use metrics that exist, and Prometheus can read them."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.metrics.table import METRICS
from tests.checkout import ROOT
from tests.deploy.promql import NoQueryError, kind_of
from tests.programs.build import program

RULES = ROOT / "deploy/monitoring/rules.yaml"
CASES = ROOT / "deploy/monitoring/rules_test.yaml"
DASHBOARD = ROOT / "deploy/kustomize/components/monitoring/dashboard.json"
PROMETHEUS_OWN = {"le", "instance", "job", "cluster", "quantile"}
"""Labels that come with a histogram, with the scrape, and with a recorded quantile."""
RECORDED = re.compile(r"[a-z0-9_]+:\w+:\w+")


@cache
def written() -> list[dict[str, Any]]:
    """Every rule of the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def recorded() -> dict[str, str]:
    """The expression of each recorded series; where there are several quantiles, that of one of them."""
    return {rule["record"]: rule["expr"] for rule in written() if "record" in rule}


def alerts() -> list[tuple[str, str, str]]:
    """Name, expression and texts of every alert."""
    return [
        (rule["alert"], rule["expr"], " ".join(rule["annotations"].values()))
        for rule in written()
        if "alert" in rule
    ]


def spelled_out(expression: str) -> str:
    """An expression with the expressions of recorded series in their places."""
    return re.sub(
        rf"({RECORDED.pattern})(\{{[^}}]*\}})?",
        lambda found: f"({recorded()[found[1]]})",
        expression,
    )


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of every query."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]


QUERIES = [
    *((title, spelled_out(expression), text) for title, expression, text in alerts()),
    *((name, expression, "") for name, expression in recorded().items()),
    *((title, spelled_out(expression), text) for title, expression, text in panels()),
]


def metric(name: str) -> str:
    """The metric that a series belongs to: a histogram has three."""
    return name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name)


def names(expression: str) -> set[str]:
    """Series named in an expression."""
    return set(re.findall(r"\b(?:muster|process)_\w+", expression))


def labels(expression: str, text: str) -> set[str]:
    """Labels that an expression groups by or selects by, and that its text shows."""
    grouped = re.findall(r"\b(?:by|without|on) \(([^)]*)\)", expression)
    selected = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)
    shown = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)
    return {name.strip() for group in grouped for name in group.split(",")} | {*selected, *shown}


@pytest.mark.parametrize(("title", "expression", "text"), QUERIES)
def test_every_metric_and_label_that_is_asked_for_exists(
    title: str, expression: str, text: str
) -> None:
    asked = {metric(name) for name in names(expression)}
    assert asked
    assert asked - set(METRICS) == set()
    known = {label for name in asked for label in METRICS[name].labels}
    assert labels(expression, text) - known - PROMETHEUS_OWN == set()


@pytest.mark.parametrize(("title", "expression", "text"), QUERIES)
def test_what_only_grows_is_asked_for_its_growth(title: str, expression: str, text: str) -> None:
    for name in names(expression):
        grows = METRICS[metric(name)].kind in {"counter", "histogram"}
        assert grows == bool(re.search(rf"(rate|increase)\({name}\b", expression)), name


@pytest.mark.parametrize(("title", "expression", "text"), QUERIES)
def test_every_series_that_is_asked_for_is_selected_by_its_job(
    title: str, expression: str, text: str
) -> None:
    """Another job may export a metric of the same name, such as a muster under trial."""
    for name in names(expression):
        selectors = re.findall(rf"{name}\b(\{{[^}}]*\}})?", expression)
        assert [one for one in selectors if 'job="muster"' not in one] == [], name


@pytest.mark.parametrize("rule", written(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_rule_tells_clusters_apart(rule: dict[str, Any]) -> None:
    """Several clusters may send to one Prometheus: what one has must not hide what another one lacks."""
    grouped = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    taken = RECORDED.findall(rule["expr"])
    assert grouped or taken
    assert [one for one in grouped if not one.startswith("cluster")] == []
    assert [one for one in taken if not one.startswith("cluster")] == []
    aggregated = re.findall(r"\b(?:sum|max|min|count|group|avg)\s*\(", rule["expr"])
    assert aggregated == []


@pytest.mark.parametrize("name", recorded())
def test_a_recorded_series_is_named_after_its_labels_its_metric_and_its_operation(
    name: str,
) -> None:
    level, source, _ = name.split(":")
    expression = recorded()[name]
    assert [metric(one).removesuffix("_total") for one in names(expression)] == [source]
    (grouped,) = re.findall(r"\bby \(([^)]*)\)", expression)[:1]
    labels = {one.strip() for one in grouped.split(",")} - {"le"}
    assert set(level.split("_")) - {"quantile"} == labels


def test_every_recorded_series_serves_an_alert_or_a_panel() -> None:
    asked = " ".join(expression for _, expression, _ in [*alerts(), *panels()])
    assert sorted(set(recorded()) - set(RECORDED.findall(asked))) == []


def test_a_quantile_in_an_alert_is_compared_with_a_bound_of_its_buckets() -> None:
    """Between two bounds a quantile is a guess: at a bound it is a count."""
    found = 0
    for _, expression, _ in alerts():
        for name, limit in re.findall(
            r"cluster_quantile:(\w+):histogram_quantile\{[^}]*\} > ([\d.]+)", expression
        ):
            found += 1
            assert float(limit) in METRICS[name].buckets
    assert found >= 2


RUNBOOKS = "https://muster.example/"
"""Stands for the place where an operator publishes the pages."""


@pytest.mark.parametrize("alert", [name for name, _, _ in alerts()])
def test_the_runbook_of_every_alert_is_a_section_of_a_page_that_exists(alert: str) -> None:
    (rule,) = (one for one in written() if one.get("alert") == alert)
    page, _, anchor = rule["annotations"]["runbook_url"].removeprefix(RUNBOOKS).partition("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert (anchor, alert in sections) == (alert.lower(), True)
    for part in ("**Meaning.**", "**Check.**", "**Do.**"):
        assert part in sections[alert]


def test_the_page_of_runbooks_has_no_alert_that_is_gone() -> None:
    text = (ROOT / "docs/runbooks/alerts.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [name for name, _, _ in alerts()]


@pytest.mark.parametrize(("title", "expression", "text"), QUERIES)
def test_every_query_can_be_read_and_gives_series(title: str, expression: str, text: str) -> None:
    assert kind_of(expression) == "instant"


@pytest.mark.parametrize(
    "text",
    [
        "sum by (queue (muster_pending_pods)",
        "rate(muster_records_total)",
        "muster_cards[1d]",
        "muster_cards{measure=total}",
        "max by (card) (muster_cards) >",
        "ratee(muster_records_total[5m])",
        "muster_cards and 1",
        "1 + 1",
        "histogram_quantile(sum(muster_wait_seconds_bucket), 0.5)",
        "muster_cards muster_cards",
    ],
)
def test_what_is_no_query_for_series_is_found(text: str) -> None:
    try:
        kind = kind_of(text)
    except NoQueryError:
        return
    assert kind != "instant"


def test_the_dashboard_shows_total_allocated_used_overcommitted_and_requested_cards() -> None:
    """Per card and per queue, and what helps to find over-allocation and lost nodes."""
    shown = " ".join(spelled_out(expression) for _, expression, _ in panels())
    for name in ("cards", "quota_cards", "allocated_cards", "healthy_cards", "free_cards"):
        assert f"(muster_{name}{{" in shown, name
    for measure in ("capability", "allocated", "request", "inqueue", "limit"):
        assert f"(muster_queue_{measure}_cards{{" in shown
    assert "muster_pending_pod_groups{" in shown
    assert 'kind="Node"' in shown


def test_every_alert_is_named_once_and_says_how_bad_it_is() -> None:
    found = [rule for rule in written() if "alert" in rule]
    assert len({rule["alert"] for rule in found}) == len(found)
    assert {rule["labels"]["severity"] for rule in found} <= {"critical", "warning", "info"}


def rules() -> dict[str, dict[str, Any]]:
    """Alerts by their names."""
    return {rule["alert"]: rule for rule in written() if "alert" in rule}


def cases() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each check of `promtool test rules`, with the test in which it stands."""
    for test in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]:
        for case in test.get("alert_rule_test", ()):
            yield test, case


def minutes(text: str) -> int:
    """A duration as the rules write it."""
    return int(text[:-1]) * {"m": 1, "h": 60, "d": 1440}[text[-1]]


def pattern(template: str) -> str:
    """What a text with values in it looks like when they are filled in."""
    return re.sub(r"\\\{\\\{.*?\\\}\\\}", ".+", re.escape(template))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    fired = {case["alertname"] for _, case in cases() if case.get("exp_alerts")}
    assert fired == set(rules())


@pytest.mark.parametrize("alert", rules())
def test_cases_of_an_alert_fit_its_rule(alert: str) -> None:
    """What promtool would find first: other series, labels and texts than those of the rule."""
    rule = rules()[alert]
    expression = spelled_out(rule["expr"])
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    found = [(test, case) for test, case in cases() if case["alertname"] == alert]
    for test, case in found:
        series = [one["series"] for one in test["input_series"]]
        # A case in which a series is missing is one of an alert on series that are missing.
        told = {name for one in series for name in names(one)}
        assert names(expression) <= told
        ends = min(_length(one["values"]) for one in test["input_series"])
        assert minutes(case["eval_time"]) < ends * minutes(test["interval"])
        for expected in case.get("exp_alerts", ()):
            assert minutes(case["eval_time"]) >= minutes(rule.get("for", "0m"))
            given = dict(expected["exp_labels"])
            assert given.pop("severity") == rule["labels"]["severity"]
            known = {one.strip() for group in grouped for one in group.split(",")} | {"quantile"}
            assert set(given) <= known | set(re.findall(r"absent\(up\{(\w+)=", expression))
            given.pop("job", None)  # `absent` gives it.
            given.pop("quantile", None)  # A recorded quantile has it.
            assert all(
                any(f'{key}="{text}"' in one for one in series) for key, text in given.items()
            )
            texts, templates = expected["exp_annotations"], rule["annotations"]
            assert set(texts) == set(templates)
            for key, template in templates.items():
                assert re.fullmatch(pattern(template), texts[key]), (texts[key], template)


def _length(values: str) -> int:
    """Samples of a series in the notation of promtool."""
    repeated = [re.fullmatch(r".*x(\d+)", one) for one in values.split()]
    return sum(1 if one is None else int(one[1]) + 1 for one in repeated)


def test_the_dashboard_lays_no_panel_over_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def promtool(*arguments: str | Path) -> str:
    """What promtool says; it must find nothing wrong."""
    done = subprocess.run(  # noqa: S603 - a pinned tool on files of ours
        [program("promtool"), *arguments],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_reads_every_rule() -> None:
    found = re.search(r"SUCCESS: (\d+) rules found", promtool("check", "rules", RULES))
    assert found is not None
    assert int(found[1]) == len(written())


def test_alerts_fire_and_series_are_recorded_as_the_cases_say() -> None:
    assert "SUCCESS" in promtool("test", "rules", CASES)


def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """As rules, with the values that Grafana would put in."""
    queries = [
        {"record": f"panel:query:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, (_, expression, _) in enumerate(panels())
    ]
    rules_of_panels = tmp_path / "panels.yaml"
    document = {"groups": [{"name": "panels", "rules": queries}]}
    rules_of_panels.write_text(yaml.safe_dump(document), encoding="utf-8")
    said = promtool("check", "rules", rules_of_panels)
    assert f"SUCCESS: {len(queries)} rules found" in said
