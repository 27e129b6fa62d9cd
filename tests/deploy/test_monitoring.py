"""The dashboard and the alerts: over exactly what the service exports, and firing for what they are for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import httpx
import pytest
import yaml

from scripts.metrics_table import HEAD, exported, table
from scripts.render_manifests import kustomize, render
from tests.deploy.dockerfile import ROOT

MONITORING = ROOT / "k8s/monitoring"
PAGE = (ROOT / "docs/monitoring.md").read_text()
RULES: dict[str, Any] = yaml.safe_load((MONITORING / "rules.yaml").read_text())
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

NOT_THE_SERVICES = {"up"}
"""Metrics that Prometheus adds itself."""

EMBEDDED = {
    *("ragstore_chroma_process_resident_memory_bytes", "ragstore_chroma_process_cpu_seconds_total"),
    *("ragstore_data_volume_bytes", "ragstore_data_volume_free_bytes"),
}
"""Metrics that only a service with embedded Chroma exports. tests/system/test_chroma_process.py reads them."""

PARTS = {"histogram": ("_bucket", "_sum", "_count")}


def names(expression: str) -> set[str]:
    """The metrics that an expression names."""
    outside = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on)\s*\([^)]*\)", " ", expression)
    return set(re.findall(r"\b(?:ragstore_\w+|process_\w+|up)\b", outside))


def asked_by_panels() -> set[str]:
    return set().union(*(names(target["expr"]) for panel in PANELS for target in panel["targets"]))


@pytest.fixture(scope="module")
def live(http: httpx.Client) -> set[str]:
    """The names that Prometheus gets of a live service."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", http.get("/metrics").text, flags=re.M):
        found |= {name + part for part in PARTS.get(kind, ("",))}
    return found


def test_every_metric_that_a_panel_shows_is_there(live: set[str]) -> None:
    assert asked_by_panels() - live - EMBEDDED == set()


def test_every_metric_that_an_alert_names_is_there(live: set[str]) -> None:
    assert set().union(*(names(rule["expr"]) for rule in ALERTS)) - live - EMBEDDED == NOT_THE_SERVICES


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    shown = asked_by_panels()
    missing = [
        metric.name
        for metric in exported()
        if not {metric.name + part for part in PARTS.get(metric.kind, ("",))} & shown
    ]
    assert missing == []


def test_every_metric_of_a_live_service_is_in_the_table(live: set[str]) -> None:
    told = {metric.name + part for metric in exported() for part in PARTS.get(metric.kind, ("",))}
    assert {name for name in live if name.startswith("ragstore_")} | EMBEDDED == told


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    assert table() in PAGE, "run: python scripts/metrics_table.py"
    assert PAGE.count(HEAD) == 1


@pytest.mark.parametrize("metric", exported(), ids=lambda metric: metric.name)
def test_names_and_units_are_as_prometheus_has_them(metric: Any) -> None:
    assert re.fullmatch(r"ragstore(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(ms|millis|milliseconds|minutes|kb|mb|percent)(_|$)", metric.name)
    if "duration" in metric.name or "wait" in metric.name:
        assert metric.name.endswith("_seconds")
    assert metric.meaning


def test_panels_overlap_nowhere() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        index = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(index["x"], index["x"] + index["w"])
            for y in range(index["y"], index["y"] + index["h"])
        }
        assert index["x"] + index["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_panels_have_numbers_of_their_own_a_unit_and_a_description() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


def test_every_panel_asks_only_for_the_chosen_jobs_and_instances() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            selectors = re.findall(r"(?:ragstore|process)_\w+\{([^}]*)\}", target["expr"])
            assert len(selectors) == len(re.findall(r"\b(?:ragstore|process)_\w+", target["expr"]))
            assert all('job=~"$job", instance=~"$instance"' in selector for selector in selectors)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_tells_how_bad_it_is_and_where_its_section_is(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Ragstore([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    runbook = f"https://ragstore.example/docs/monitoring.html#{rule['alert'].lower()}"
    assert rule["annotations"]["runbook_url"] == runbook
    assert f"\n### {rule['alert']}\n" in PAGE


def test_every_alert_has_a_test() -> None:
    tests = yaml.safe_load((MONITORING / "rules.test.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in ALERTS}


def test_the_operator_gets_the_same_rules() -> None:
    manifest = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    assert manifest["spec"] == RULES, "run: make generate"


def test_the_alerts_fire_for_what_they_are_for() -> None:
    """With promtool, if it is installed: `make deploy-check` says so if it is not."""
    promtool = shutil.which("promtool")
    if promtool is not None:
        for command in (["check", "rules", "rules.yaml"], ["test", "rules", "rules.test.yaml"]):
            run = subprocess.run([promtool, *command], cwd=MONITORING, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stdout + run.stderr


def test_the_dashboard_is_where_a_grafana_sidecar_looks_for_it() -> None:
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the dashboard's ConfigMap cannot be rendered")
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(render(MONITORING))}
    assert manifests.keys() == {"ConfigMap", "PrometheusRule"}
    assert manifests["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(manifests["ConfigMap"]["data"]["ragstore.json"]) == DASHBOARD
    assert {manifest["metadata"]["namespace"] for manifest in manifests.values()} == {"ragstore"}
