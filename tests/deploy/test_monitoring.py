"""Alerts and dashboard speak of metrics that there are."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.metrics.table import METRICS
from tests.checkout import ROOT
from tests.deploy.promql import NoQueryError, kind_of

RULES = ROOT / "deploy/monitoring/rules.yaml"
CASES = ROOT / "deploy/monitoring/rules_test.yaml"
DASHBOARD = ROOT / "deploy/kustomize/components/monitoring/dashboard.json"
PROMETHEUS_OWN = {"le", "instance"}
"""Labels that come with a histogram, and with the scrape."""


def alerts() -> list[tuple[str, str, str]]:
    """Name, expression and texts of every alert."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [
        (rule["alert"], rule["expr"], " ".join(rule["annotations"].values()))
        for group in groups
        for rule in group["rules"]
    ]


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of every query."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]


QUERIES = [*alerts(), *panels()]


def metric(name: str) -> str:
    """The metric that a series belongs to: a histogram has three."""
    return name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name)


def names(expression: str) -> set[str]:
    """Series named in an expression."""
    return set(re.findall(r"muster_\w+", expression))


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


@pytest.mark.parametrize("name", sorted(one for one in METRICS if "measure" in METRICS[one].labels))
def test_measures_that_are_asked_for_are_those_of_the_table(name: str) -> None:
    asked = {
        word
        for _, expression, _ in QUERIES
        for word in re.findall(rf'{name}\{{measure="(\w+)"', expression)
    }
    assert asked
    assert asked <= set(re.findall(r"`(\w+)`", METRICS[name].labels["measure"]))


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
    shown = " ".join(expression for _, expression, _ in panels())
    for measure in ("total", "quota", "allocated", "healthy", "free"):
        assert f'muster_cards{{measure="{measure}"}}' in shown
    for measure in ("capability", "allocated", "request", "inqueue", "limit"):
        assert f'muster_queue_cards{{measure="{measure}"' in shown
    assert "max by (queue, code) (muster_pending_pod_groups" in shown
    assert 'muster_objects{kind="Node"}' in shown


def test_every_alert_is_named_once_and_says_how_bad_it_is() -> None:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert {rule["labels"]["severity"] for rule in rules} <= {"critical", "warning", "info"}


def rules() -> dict[str, dict[str, Any]]:
    """Alerts by their names."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cases() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each check of `promtool test rules`, with the test in which it stands."""
    for test in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]:
        for case in test["alert_rule_test"]:
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
    grouped = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    found = [(test, case) for test, case in cases() if case["alertname"] == alert]
    for test, case in found:
        series = [one["series"] for one in test["input_series"]]
        assert names(rule["expr"]) <= {name for one in series for name in names(one)}
        ends = min(_length(one["values"]) for one in test["input_series"])
        assert minutes(case["eval_time"]) < ends * minutes(test["interval"])
        for expected in case.get("exp_alerts", ()):
            assert minutes(case["eval_time"]) >= minutes(rule.get("for", "0m"))
            given = dict(expected["exp_labels"])
            assert given.pop("severity") == rule["labels"]["severity"]
            if grouped:
                assert set(given) <= {one.strip() for group in grouped for one in group.split(",")}
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


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")
@pytest.mark.parametrize("command", ["check rules rules.yaml", "test rules rules_test.yaml"])
def test_prometheus_finds_nothing_wrong_with_the_rules(command: str) -> None:
    done = subprocess.run(  # noqa: S603 - a tool from the PATH on files of ours
        ["promtool", *command.split()],  # noqa: S607
        cwd=Path(RULES).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
