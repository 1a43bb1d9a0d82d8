"""What the documentation says is what the code says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pulsed.cli import main
from pulsed.model.host import PORT_COUNTERS
from pulsed.model.vocabulary import QUANTITIES
from tests.support.daemon import Daemon, serving
from tests.support.waiting import until
from tools.generate_docs import ROOT
from tools.health_docs import health
from tools.metric_rows import joined_meaning
from tools.metrics_docs import metrics

EXPECTED = ROOT / "tests" / "golden" / "expected"
CONDITIONAL = {
    "pulsed_job_allocated_gpu_seconds_total",  # a scheduler that gives parts of GPUs
    "pulsed_push_samples_total",  # with publish.otlp
    "pulsed_push_dropped_samples_total",
    "pulsed_push_up",
    "pulsed_discovery_up",  # with source.exporter.discovery
    "pulsed_discovery_last_success_timestamp_seconds",
    "pulsed_health_report_up",  # with kubernetes.conditions
    "pulsed_attribution_errors_total",
    "pulsed_feature_failures_total",
    "pulsed_task_failures_total",
    "pulsed_gpu_health_check_last_event_timestamp_seconds",
    "pulsed_gpu_health_evidence",
    "pulsed_gpu_nvlink_link_transmit_waits_total",
    "pulsed_gpu_hang_suspected",
    "pulsed_gpu_leaked_memory",
    "pulsed_gpu_nvlink_down",
    "pulsed_gpu_nvlink_errors_total",
    "pulsed_gpu_nvlink_fault_timestamp_seconds",
    "pulsed_gpu_straggler",
    "pulsed_kernel_log_up",
    "pulsed_node_health_check",  # where this host's GPUs are read
    "pulsed_node_pci_gpus",
    *(
        f"pulsed_node_cpu_{name}"
        for name in ("power_watts", "power_limit_watts", "io_power_watts", "temperature_celsius")
    ),
    "pulsed_node_module_power_watts",
    *(f"pulsed_node_infiniband_port_{name}" for name in ("up", "rate_bytes_per_second")),
    *(f"pulsed_node_infiniband_port_{name}_total" for name in PORT_COUNTERS),
    "pulsed_workload_pods",
    "pulsed_workload_real_utilization_ratio_sum",
    "pulsed_notifications_total",
}
"""Families without a sample on the pages here: they need an event, an error, minutes, a cluster, or inputs that these
lack."""

TOPS = ("deploy", "helm", "systemd", "tests")
"""Folders with pages of their own."""

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_metrics_md_is_current() -> None:
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics(), "make docs"


def test_health_md_is_current() -> None:
    assert (ROOT / "docs/health.md").read_text(encoding="utf-8") == health(), "make docs"


READMES = [path for top in TOPS for path in (ROOT / top).rglob("README.md")]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *READMES])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found.read_text(encoding="utf-8")), f"{target}#{anchor}"


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)}


def test_the_example_of_the_readme_is_what_pulsed_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    ((command, output),) = re.findall(r"```console\n\$ pulsed ([^\n]*)\n(.*?)```", README, re.DOTALL)
    assert main([word.replace("docs/", f"{ROOT}/docs/") for word in command.split()]) == 0
    assert capsys.readouterr().out == output


def test_every_promise_about_security_names_its_test() -> None:
    doors = (ROOT / "docs/security.md").read_text(encoding="utf-8").partition("## Doors")[2].partition("## Limits")[0]
    promises = re.findall(r"^- (.*?)(?=^- |^\n)", doors, re.DOTALL | re.MULTILINE)
    assert len(promises) > 30
    for promise in promises:
        tests = re.findall(r"\[`(\w+)`\]\(([\w/.]+)\)", promise)
        assert tests, promise
        for name, file in tests:
            assert re.search(
                rf"^ *(async )?def {name}\(", (ROOT / "docs" / file).read_text(encoding="utf-8"), re.MULTILINE
            ), name


def test_every_command_in_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"(?:^|`)pulsed ([a-z-]+)", README, re.MULTILINE))
    assert commands >= {"serve", "snapshot", "export", "check-config"}
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert capsys.readouterr().out


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("docs")
    flags = ("--source=demo", "--set=publish.series=full", f"--set=state_dir={folder}/state")
    with serving(folder, *flags) as running:
        yield running


@pytest.mark.slow
def test_api_md_lists_the_routes_and_no_others(daemon: Daemon) -> None:
    table = re.findall(r"^\|((?:`/[^`]*` ?)+)\|", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    documented = {path for cell in table for path in re.findall(r"`([^`]+)`", cell)}
    described = set(daemon.get("/openapi.json").json()["paths"])
    assert documented == described | {"/", "/-/forget", "/-/reload", "/openapi.json", "/docs", "/docs/health"}
    job = quote(daemon.get("/jobs").json()["jobs"][0]["owner"]["id"])
    workload = {"{how}": "sum", "{namespace}": "demo", "{kind}": "Pod", "{name}": "any", "{metric}": "real_utilization"}
    parts = {"{number}": "0", "{node}": quote(daemon.get("/gpus").json()["gpus"][0]["node"])}
    for path in documented - {"/-/forget", "/-/reload", "/events"}:
        asked = path
        for placeholder, text in {"{gpu}": "0", "{id}": job, **workload, **parts}.items():
            asked = asked.replace(placeholder, text)
        assert daemon.get(asked).status == 200, path
    assert daemon.get("/-/reload", method="POST").status == 403
    assert daemon.get("/events", method="HEAD").status == 200


OPENAPI = ROOT / "tests/golden/expected/openapi.txt"


def test_openapi_describes_what_it_did_before(daemon: Daemon) -> None:
    """After a wanted change: UPDATE_GOLDEN=1, and review the difference."""
    text = "".join(f"{line}\n" for line in described(daemon.get("/openapi.json").json()))
    if os.environ.get("UPDATE_GOLDEN"):
        OPENAPI.write_text(text, encoding="utf-8")
    assert text == OPENAPI.read_text(encoding="utf-8")


def described(schema: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each operation, parameter, response and property of an OpenAPI schema, whatever their order."""
    for path, methods in sorted(schema["paths"].items()):
        for method, operation in sorted(methods.items()):
            yield f"{method} {path}"
            for each in sorted(operation.get("parameters", ()), key=lambda each: str(each["name"])):
                optional = "" if each["required"] else ", optional"
                yield f"  {each['in']} {each['name']}: {meaning(each['schema'])}{optional}"
            for status, response in sorted(operation["responses"].items()):
                for kind, content in sorted(response.get("content", {}).items()):
                    yield f"  {status} {kind}: {meaning(content.get('schema', {}))}"
    for name, model in sorted(schema["components"]["schemas"].items()):
        yield name
        for key, value in sorted(model.get("properties", {}).items()):
            yield f"  {key}: {meaning(value)}{'' if key in model.get('required', ()) else ', optional'}"


def meaning(schema: dict[str, Any]) -> str:
    """Return the type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(sorted(meaning(each) for each in schema["anyOf"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"[{meaning(schema.get('items', {}))}]"
    inner = schema.get("additionalProperties")
    return f"{{{meaning(inner)}}}" if kind == "object" and isinstance(inner, dict) else kind


def test_metrics_md_has_the_families_of_every_page_and_no_others(daemon: Daemon) -> None:
    for late in ("pulsed_pod_energy_joules_total{", "pulsed_gpu_clock_event_ratio{"):  # not in the first samples
        until(lambda late=late: late in daemon.get("/metrics").text)  # type: ignore[misc]
    pages = [daemon.get("/metrics").text]
    pages += [path.read_text(encoding="utf-8") for path in EXPECTED.glob("*.metrics.txt")]
    published = {name for page in pages for name in re.findall(r"^# TYPE (pulsed_\w+)", page, re.MULTILINE)}
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\|(`pulsed_[^|]*)\|", text, re.MULTILINE)
    rows = [name for cell in cells for name in re.findall(r"`([^`]*)`", cell)]
    (unknown,) = re.findall(r"^Unknown time: (.*)$", text, re.MULTILINE)
    documented = [re.sub(r"\{.*\}", "", row) for row in (*rows, *re.findall(r"`(\w+)`", unknown))]
    assert len(documented) == len(set(documented))
    published = {re.sub("^pulsed_(pod|workload)_", "pulsed_job_", name) for name in published}  # documented once
    missing = {name for name in published if not any(re.fullmatch(row, name) for row in documented)}
    assert missing == set()
    quantities = {f"pulsed_gpu_{name}" for name in QUANTITIES}
    absent = [row for row in documented if not any(re.fullmatch(row, name) for name in published | quantities)]
    assert set(absent) == CONDITIONAL


@pytest.mark.parametrize(
    ("meanings", "joined"),
    [
        ("Power", "Power"),
        ("Data sent over PCIe|Data received over PCIe", "Data sent / received over PCIe"),
        ("Time throttled by the power limit|Time throttled by heat", "Time throttled by the power limit / heat"),
        (
            "Banks with all rows left|Banks with no rows left|Banks with few rows left",
            "Banks with all / no / few rows left",
        ),
        (
            "Data sent over PCIe, integrated; sent_total is the GPU's counter|"
            "Data received over PCIe, integrated; received_total is the GPU's counter",
            "Data sent / received over PCIe, integrated; sent_total / received_total is the GPU's counter",
        ),
        ("SM clock|Memory clock", ""),
        ("Power limit|Power limit after a reset", ""),
        ("Slurm job that has the GPU|User id of the job that has the GPU", ""),
    ],
)
def test_meanings_are_joined_where_they_differ_in_one_place_or_two_words(meanings: str, joined: str) -> None:
    assert joined_meaning(meanings.split("|")) == joined
