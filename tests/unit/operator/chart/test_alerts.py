"""Each of the chart's alerts, by promtool: it is quiet while all is well, and fires when it is not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import helm
from support.operator.prometheus import promtool

RULES = helm.CHART / "monitoring" / "alerts.yaml"
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, a value each 15 seconds: well for five minutes, and ill from then on."""

    alert: str
    series: dict[str, str]
    fires: str
    """When it fires at the latest."""


def stated(condition: str, ill: int) -> dict[str, str]:
    return {
        f'flamestream_job_condition{{exported_job="n.j", condition="{condition}"}}': f"{1 - ill}x20 {ill}x80"
    }


WELL = "1x100"
CASES = [
    Case(
        "FlameStreamNobodyLeads",
        {
            'flamestream_operator_leader{pod="a"}': "1x20 0x80",
            'flamestream_operator_leader{pod="b"}': WELL,
            'flamestream_operator_shards{pod="a"}': "2x100",
        },
        "6m45s",
    ),
    Case("FlameStreamNobodyLeads", {'flamestream_operator_leader{pod="a"}': "1x20 stale _x80"}, "7m"),
    Case("FlameStreamJobFailed", stated("Failed", 1), "5m30s"),
    Case("FlameStreamJobDegraded", stated("Degraded", 1), "10m45s"),
    Case(
        "FlameStreamEpochsLate",
        {
            'flamestream_job_epoch_age_seconds{exported_job="n.j"}': "900x20 0+15x80",
            'flamestream_job_condition{exported_job="n.j", condition="Running"}': WELL,
        }
        | stated("Checkpointing", 0),
        "8m",
    ),
    Case(
        "FlameStreamNoOutput",
        {
            'flamestream_job_output_age_seconds{exported_job="n.j"}': "900x20 0+15x80",
            'flamestream_job_in_flight_items{exported_job="n.j"}': "0x20 7x80",
        },
        "7m",
    ),
    Case(
        "FlameStreamSlow",
        {
            'flamestream_job_release_latency_seconds_bucket{exported_job="n.j", le="0.03"}': "0+15x20 300x80",
            'flamestream_job_release_latency_seconds_bucket{exported_job="n.j", le="1"}': "0+15x100",
            'flamestream_job_release_latency_seconds_bucket{exported_job="n.j", le="+Inf"}': "0+15x100",
        },
        "12m",
    ),
    Case("FlameStreamRecoveryStuck", stated("Recovering", 1), "6m45s"),
    Case(
        "FlameStreamRecoversAgainAndAgain",
        {'flamestream_job_recoveries_total{exported_job="n.j", cause="lost"}': "1x20 2+1x80"},
        "7m",
    ),
    Case(
        "FlameStreamNoStandby",
        {'flamestream_job_workers{exported_job="n.j", role="standby"}': "1x20 0x80"},
        "10m45s",
    ),
    Case("FlameStreamAuditFailed", {'flamestream_job_audit_clean{exported_job="n.j"}': "1x20 0x80"}, "5m30s"),
    Case(
        "FlameStreamReconcileErrors",
        {'flamestream_operator_reconcile_errors_total{kind="job"}': "0x20 0+15x80"},
        "18m",
    ),
]


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == set(ALERTS) and len(set(ALERTS)) == len(ALERTS)


def test_the_rules_are_rules() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_is_quiet_while_all_is_well_and_then_fires(case: Case, tmp_path: Path) -> None:
    firing = f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}})'
    looks: list[dict[str, Any]] = [
        {"expr": firing, "eval_time": "5m", "exp_samples": []},
        {"expr": firing, "eval_time": case.fires, "exp_samples": [{"labels": "{}", "value": 1}]},
    ]
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    _tested(tmp_path, {"interval": "15s", "input_series": series, "promql_expr_test": looks})


def test_what_an_alert_says_names_the_job_and_the_value(tmp_path: Path) -> None:
    (case,) = [case for case in CASES if case.alert == "FlameStreamNoOutput"]
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    said = {
        "summary": "Job n.j has given nothing for 1m 45s",
        "description": "Items have entered whose results wait. Look at its consumers, and whether it recovers.",
    }
    labels = {"exported_job": "n.j", "severity": "critical"}
    fires = {"exp_labels": labels, "exp_annotations": said}
    look = {"eval_time": "7m", "alertname": case.alert, "exp_alerts": [fires]}
    _tested(tmp_path, {"interval": "15s", "input_series": series, "alert_rule_test": [look]})


def _tested(folder: Path, test: dict[str, Any]) -> None:
    whole = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(whole))
    promtool("test", "rules", folder / "test.yaml")


def test_the_chart_hands_them_to_whoever_reads_rules() -> None:
    values = {"zookeeper": {"loginSecret": "login", "tls": {"secret": "tls"}}, "metrics": {"alerts": True}}
    rule = "monitoring.coreos.com/v1/PrometheusRule"
    (plain,), (ruled,) = (
        [
            each
            for each in yaml.safe_load_all(helm.rendered(values, *kinds))
            if each is not None and each["metadata"]["name"] == "release-alerts"
        ]
        for kinds in ((), (rule,))
    )
    assert plain["kind"] == "ConfigMap" and plain["data"]["alerts.yaml"].strip() == RULES.read_text().strip()
    assert ruled["kind"] == "PrometheusRule" and ruled["spec"] == yaml.safe_load(RULES.read_text())
