from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.cli import main
from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import MAX_RULES, RuleSelection, document, groups
from pulsed.present.promql.rule_types import CLUSTER, RUNBOOK, Alert, Group, Recording, number
from tests.present.promql.promtool import promtool

ALERTS_OF_PULSED = [f"pulsed-alerts-{name}" for name in ("use", "findings", "owners", "gone", "monitoring", "health")]
RECORDING_OF_PULSED = [
    f"pulsed-recording-{name}" for name in ("nodes", "models", "fleet", "jobs", "pods", "workloads", "scale", "use")
]
OF_PULSED = [*RECORDING_OF_PULSED, *ALERTS_OF_PULSED]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    return capsys.readouterr().out


def loaded_yaml(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def test_promtool_has_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(printed(capsys))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert f"{sum(len(group.rules) for group in groups(ComputeSettings(), RuleSelection()))} rules found" in done.stdout
    assert "duplicate" not in done.stdout


def test_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys) == document(ComputeSettings(), RuleSelection())


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), OF_PULSED),
        (("--kind", "recording"), RECORDING_OF_PULSED),
        (("--kind", "alerting"), ALERTS_OF_PULSED),
    ],
)
def test_what_was_asked_for(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: list[str]) -> None:
    loaded = loaded_yaml(printed(capsys, *arguments))
    assert [group["name"] for group in loaded["groups"]] == names


def names_of(text: str) -> tuple[list[str], list[str]]:
    """Return the groups and the alerts of a rule file."""
    loaded = loaded_yaml(text)["groups"]
    return [group["name"] for group in loaded], [
        rule["alert"] for group in loaded for rule in group["rules"] if "alert" in rule
    ]


def test_groups_and_alerts_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    before, alerts = names_of(printed(capsys))
    left = ("PulsedDaemonDown", "PulsedSourceDown")
    chosen = ("--exclude=pulsed-alerts-use", *(f"--exclude={name}" for name in left))
    after, kept = names_of(printed(capsys, *chosen))
    assert after == [name for name in before if name != "pulsed-alerts-use"]
    of_use = [
        name for name in alerts if name.startswith("PulsedGpu") and name.endswith(("IdleHeld", "LowRealUtilization"))
    ]
    assert not set(kept) & {*left, *of_use}
    assert set(alerts) - set(kept) == {
        *left,
        *of_use,
        "PulsedGpuIdleEnergy",
    }
    monitoring = names_of(printed(capsys, "--exclude", "pulsed-alerts-health"))[1]
    every = [f"--exclude={name}" for name in monitoring if name.startswith("Pulsed")]
    remaining = names_of(printed(capsys, *every))[0]
    assert remaining == [*RECORDING_OF_PULSED, "pulsed-alerts-health"], "no empty group"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("PulsedDeamonDown", "Did you mean PulsedDaemonDown?"),
        ("pulsed-alert-health", "Did you mean pulsed-alerts-health?"),
        (
            "42",
            "Groups: pulsed-recording-nodes, pulsed-recording-models, pulsed-recording-fleet, ",
        ),
    ],
)
def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str], name: str, hint: str) -> None:
    assert main(["rules", "--exclude", name]) == 2
    error = capsys.readouterr().err
    assert name in error
    assert hint in error


def test_alerts_link_to_the_configured_runbook(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--runbook-url", "https://wiki/gpu")
    links = [
        rule["annotations"]["runbook_url"]
        for g in loaded_yaml(text)["groups"]
        for rule in g["rules"]
        if "alert" in rule
    ]
    assert "https://wiki/gpu#{{ $labels.check }}" in links
    assert all(link.startswith("https://wiki/gpu#") for link in links)


@pytest.mark.parametrize(
    ("arguments", "document"),
    [
        ((), "docs/health.md"),
        (("--set", "web.external_url=https://gpu.example/pulsed/"), "https://gpu.example/pulsed/docs/health"),
    ],
)
def test_alerts_link_to_the_document_of_the_daemon(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], document: str
) -> None:
    assert f'runbook_url: "{document}#pulseddaemondown"' in printed(capsys, *arguments)


def test_no_group_is_too_large_for_mimir() -> None:
    sizes = {group.name: len(group.rules) for group in groups(ComputeSettings(), RuleSelection())}
    assert {name: size for name, size in sizes.items() if size > MAX_RULES} == {}


def test_an_object_of_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    plain = loaded_yaml(printed(capsys))
    text = printed(
        capsys, "--format", "kubernetes", "--namespace", "monitoring", "--labels", "release=prometheus,on=yes"
    )
    found = loaded_yaml(text)
    assert found["apiVersion"] == "monitoring.coreos.com/v1"
    assert found["kind"] == "PrometheusRule"
    assert found["metadata"] == {
        "name": "pulsed",
        "namespace": "monitoring",
        "labels": {"release": "prometheus", "on": "yes"},
    }
    assert found["spec"] == plain
    assert "namespace" not in loaded_yaml(printed(capsys, "--format", "kubernetes"))["metadata"]


def test_yaml_says_what_the_rules_say() -> None:
    """Expressions, labels and texts come back as they were, whatever characters they have."""
    given = groups(ComputeSettings(), RuleSelection())
    loaded = loaded_yaml(document(ComputeSettings(), RuleSelection()))["groups"]
    for group, found in zip(given, loaded, strict=True):
        assert isinstance(group, Group)
        for rule, each in zip(group.rules, found["rules"], strict=True):
            assert each["expr"] == rule.expr
            if isinstance(rule, Recording):
                assert each["record"] == rule.record
                assert "labels" not in each
            else:
                assert isinstance(rule, Alert)
                assert each["alert"] == rule.name
                assert each["for"] == rule.hold
                texts = {"summary": CLUSTER + rule.summary, "description": rule.description, **rule.annotations}
                assert each["annotations"] == texts | {"runbook_url": f"{RUNBOOK}#{rule.anchor}"}


def test_the_configuration_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys,
        *("--set", "compute.real_utilization.min_coverage=0.75"),
        *("--set", "publish.scale_target=0.4"),
    )
    assert "pulsed_gpu_real_utilization_coverage_ratio < 0.75" in text
    assert "workload:pulsed_real_utilization_ratio:lower > 0.4" in text


def test_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pulsed.yml"
    assert printed(capsys, "--output", str(file)) == ""
    assert file.read_text() == document(ComputeSettings(), RuleSelection())
    assert main(["rules", "--output", str(tmp_path / "no" / "where")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_labels_of_the_object_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "kubernetes", "--labels", "release"]) == 2
    assert "name=value" in capsys.readouterr().err


def test_every_recorded_name_follows_the_convention() -> None:
    for group in groups(ComputeSettings(), RuleSelection("recording")):
        for rule in group.rules:
            assert isinstance(rule, Recording)
            level, metric, operation = rule.record.split(":")
            assert (level == "gpu") == (group.name == "pulsed-recording-use")
            assert metric.startswith("pulsed_")
            assert operation


@pytest.mark.parametrize(
    ("value", "text"), [(0.05, "0.05"), (1.0, "1"), (1e9, "1e9"), (2147483632.0, "2147483632"), (1e-09, "1e-09")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text
    assert float(text) == value
