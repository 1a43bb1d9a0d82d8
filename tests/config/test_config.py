from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.settings import (
    PRESETS,
    ComputeSettings,
    IdleSettings,
    Preset,
    RealUtilizationSettings,
    Weights,
    WorkloadSettings,
)
from pulsed.config.configuration import Config, check, load
from pulsed.config.settings import all_keys
from pulsed.errors import ConfigError
from pulsed.reader.exporter import ExporterSettings, ExporterTarget
from pulsed.reader.replay import DEFAULT_START
from tools.generate_docs import ROOT, example, manual

FIXTURES = Path(__file__).parent / "fixtures"
SECRET = "hunter2"


def problems(
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, object]] | None = None,
    file: Path | None = None,
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(file, overrides, environment or {}, flags)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


DURATION = "allowed: seconds as a number above 0, or a text such as 100ms, 15s, 1m, 1h30m"
ADDRESS = (
    "allowed: host:port such as :9401, 127.0.0.1:9401, [::1]:9401, or unix:/run/pulsed.sock; one or a list of them"
)
BOUNDS = "allowed: ratios in ascending order, such as [0.25, 0.5, 0.75]"
TARGET = (
    "allowed: a URL such as http://localhost:9400/metrics, the name of a saved page, or {url: URL, labels: {rack: r1}}"
    "; one or a list of them"
)
NAMESPACES = "allowed: names such as gpu-operator, one or a list of them; or all"

BAD = {
    "alias-without-end": [": not a configuration: it is nested without end"],
    "demo-seed-text": [":3: source.demo.seed: 'lucky' is not allowed; allowed: a whole number"],
    "dotted-key": [":1: source.kind: unknown key; write it nested, as in {source: {kind: ...}}"],
    "duplicate-key": [":5: log: is given twice, first at FILE:1; leave one of them out"],
    "exporters-of-all-namespaces-with-credentials": [
        f":{line}: source.exporter.{key}: would be sent to any pod with the labels of an exporter; "
        "name kubernetes.namespaces"
        for line, key in ((6, "bearer_token_file"), (7, "cert_file"))
    ],
    "histogram-in-percent": [f":3: compute.real_utilization.histogram[1]: 90 is not allowed; {BOUNDS}"],
    "histogram-not-ascending": [f":3: compute.real_utilization.histogram: a list is not in ascending order; {BOUNDS}"],
    "interval-garbage": [f":2: source.interval: '15 parsecs' is not a duration; {DURATION}"],
    "interval-negative": [f":2: source.interval: '-15s' is negative; {DURATION}"],
    "interval-not-a-number": [f":2: source.interval: '.nan' is not a duration; {DURATION}"],
    "interval-too-short-for-demo": [":3: source.interval: is 0.05 s; allowed for the kind demo: 0.1 s and up"],
    "interval-too-short-for-exporter": [":3: source.interval: is 0.5 s; allowed for the kind exporter: 1 s and up"],
    "interval-zero": [f":2: source.interval: 0 is not a positive duration; {DURATION}"],
    "key-at-wrong-level": [":1: targets: unknown key; did you mean source.exporter.targets?"],
    "key-file-without-cert-file": [":3: source.exporter.key_file: needs its certificate too; set cert_file"],
    "listen-ipv6-without-brackets": [f":1: listen: '::1:9401' needs brackets around its IPv6 address; {ADDRESS}"],
    "listen-nothing": [f":1: listen: an empty list is not allowed; {ADDRESS}"],
    "listen-port-too-large": [f":1: listen: '127.0.0.1:99999' has no port of 0 to 65535; {ADDRESS}"],
    "listen-without-port": [f":1: listen[1]: 'localhost' has no port; {ADDRESS}"],
    "log-format-yaml-1.1-boolean": [":2: log.format: 'on' is not allowed; allowed: logfmt, json"],
    "log-level-unknown": [":2: log.level: 'loud' is not allowed; allowed: debug, info, warn, error"],
    "max-page-bytes-unknown-unit": [
        ":3: source.exporter.max_page_bytes: '64 megs' is not a size; "
        "allowed: bytes as a number, or a text such as 512KiB, 64MiB, 1GB"
    ],
    "max-requests-fraction": [":1: max_requests: 1.5 is not allowed; allowed: a whole number, 0 or more"],
    "max-requests-negative": [":1: max_requests: -1 is not allowed; allowed: a whole number, 0 or more"],
    "min-coverage-in-percent": [
        ":3: compute.real_utilization.min_coverage: 50 is not allowed; allowed: a number from 0 to 1"
    ],
    "mistakes-between-keys": [
        ":10: publish.series: 'most' is not allowed; allowed: lean, full",
        ":5: source.exporter.timeout: is 20 s, and the interval 5 s; allowed: at most the interval",
        ":6: source.exporter.max_page_bytes: '64 megs' is not a size; "
        "allowed: bytes as a number, or a text such as 512KiB, 64MiB, 1GB",
        ":7: source.exporter.username: needs a password too; set password or password_file",
        ":9: publish.include: has 'pulsed_gpu_power_wats', which is not a family; did you mean pulsed_gpu_power_watts?",
    ],
    "missing-unknown": [":2: compute.missing: 'none' is not allowed; allowed: bounds, zero"],
    "namespaces": [
        ":4: source.exporter.kubernetes.namespace: unknown key; did you mean source.exporter.kubernetes.namespaces?",
        f":5: source.exporter.kubernetes.namespaces[1]: '../secrets' is not a namespace; {NAMESPACES}",
        f":5: source.exporter.kubernetes.namespaces[2]: 'GPU' is not a namespace; {NAMESPACES}",
    ],
    "not-a-mapping": [":1: the file must hold keys with values, as in 'listen: :9401'"],
    "not-utf-8": [": cannot be read: it is not UTF-8; name a YAML file"],
    "not-yaml": [":5:1: not valid YAML: found unexpected end of stream"],
    "password-list": [":4: source.exporter.password: this value is not allowed; allowed: a text"],
    "password-twice": [":5: source.exporter.password_file: cannot be set together with password; set one of them"],
    "password-unknown-key": [":3: source.exporter.pasword: unknown key; did you mean source.exporter.password?"],
    "password-without-username": [":3: source.exporter.password: needs a user too; set username"],
    "preset-and-weights": [
        ":3: compute.real_utilization.preset: is hpc, but weights are given; write custom, or leave one of the two out"
    ],
    "preset-custom-without-weights": [
        ":3: compute.real_utilization.preset: is custom, which needs weights; set compute.real_utilization.weights"
    ],
    "preset-unknown": [":3: compute.real_utilization.preset: 'aii' is not allowed; allowed: ai, hpc, mem, custom"],
    "removed": [
        ":1: adapter: was removed; scale with KEDA or prometheus-adapter: helm/pulsed/README.md#autoscaling",
    ],
    "replay-speed-negative": [":3: source.replay.speed: -1 is not allowed; allowed: a number, 0 or more"],
    "replay-start-garbage": [
        ":3: source.replay.start: 'yesterday' is not a time; allowed: Unix seconds, "
        "or a text such as 2026-01-01T00:00:00Z"
    ],
    "replay-without-path": [":2: source.kind: is replay, which needs a recording; set source.replay.path"],
    "section-as-text": [
        ":1: source: 'demo' is not allowed; "
        "source has the keys kind, interval, stale_after, max_gpus, dcgmi, exporter, nvml, replay, demo"
    ],
    "several-mistakes": [
        ":1: listn: unknown key; did you mean listen?",
        ":2: max_requests: 'many' is not allowed; allowed: a whole number, 0 or more",
        ":4: log.level: 'verbose' is not allowed; allowed: debug, info, warn, error",
        f":6: source.interval: 'soon' is not a duration; {DURATION}",
        f":8: source.exporter.timeout: 'later' is not a duration; {DURATION}",
    ],
    "program-unknown": [
        ":2: publish.compat[1]: 'jobstat' is not a program that pulsed has series for; allowed: some of jobstats"
    ],
    "family-unknown": [
        ":3: publish.include: has 'pulsed_gpu_power_wats', which is not a family; did you mean pulsed_gpu_power_watts?",
        ":4: publish.exclude: has 'DCGM_*', which is not a family; "
        "allowed: names of docs/metrics.md and patterns such as pulsed_gpu_ecc_*",
        ":4: publish.exclude: has 'pulsed_source_up', which is about pulsed itself and always published; remove it",
    ],
    "field-id-zero": [
        ":3: source.dcgmi.fields[0]: 0 is not allowed; allowed: ids of DCGM fields, such as [1017]",
    ],
    "group-unknown": [
        ":4: source.dcgmi.groups[1]: 'cor' is not a group of fields; allowed: some of core, health, nvlink, media",
    ],
    "external-url": [
        ":1: web.external_url: '/pulsed' does not begin with http:// or https:// and a host; "
        "allowed: a URL such as https://example.org/pulsed/",
        ":1: web.route_prefix: '/a b' is not a path of a page; allowed: a path such as /gpu-node-1/pulsed, or /",
    ],
    "health-values": [
        ":3: health.thresholds.temp_margin.warn: 'hot' is not allowed; "
        "allowed: numbers by check and state, such as {temp_memory: {warn: 90}}",
        ":4: health.xids.79: 'fatal' is not allowed; allowed: ok, info, warn or crit by XID, such as {109: warn}",
    ],
    "source-kind-unknown": [
        ":2: source.kind: 'prometheus' is not allowed; allowed: auto, dcgmi, exporter, nvml, replay, demo",
    ],
    "stale-after-list": [f":2: source.stale_after: a list is not a duration; {DURATION}"],
    "switch-as-number": [":2: publish.passthrough: 2 is not allowed; allowed: true, false"],
    "tag": [":1: node: has a YAML tag; write the value without it"],
    "target-other-scheme": [
        f":3: source.exporter.targets: 'ftp://***@bad/metrics' does not begin with http:// or https://; {TARGET}"
    ],
    "target-without-host": [f":3: source.exporter.targets: 'http:///metrics' names no host; {TARGET}"],
    "target-without-scheme": [
        f":5: source.exporter.targets[1]: '***@bad:9400/metrics' does not begin with http:// or https://; {TARGET}"
    ],
    "telemetry-path-empty": [
        ":1: telemetry_path: '' is not a path of a page; allowed: a path that begins with /, such as /metrics"
    ],
    "telemetry-path-relative": [
        ":1: telemetry_path: 'metrics' is not a path of a page; allowed: a path that begins with /, such as /metrics"
    ],
    "threshold-in-percent": [
        ":4: compute.workload.thresholds.compute_heavy_sm_ratio: 80 is not allowed; allowed: a number from 0 to 1"
    ],
    "threshold-unknown": [
        ":4: compute.workload.thresholds.compute_heavy_sm: unknown key; "
        "did you mean compute.workload.thresholds.compute_heavy_sm_ratio?"
    ],
    "timeout-above-interval": [
        ":3: source.exporter.timeout: is 20 s, and the interval 15 s; allowed: at most the interval"
    ],
    "two-documents": [":2:1: not valid YAML: but found another document"],
    "unknown-key": [":3: source.exporter.target: unknown key; did you mean source.exporter.targets?"],
    "unknown-section": [":1: sauce: unknown key; did you mean source?"],
    "username-and-bearer-token": [
        ":5: source.exporter.bearer_token: cannot be set together with username; set one of them"
    ],
    "username-without-password": [":3: source.exporter.username: needs a password too; set password or password_file"],
    "weight-negative": [":3: compute.real_utilization.weights.sm: -1 is not allowed; allowed: a number, 0 or more"],
    "weight-unknown": [
        ":3: compute.real_utilization.weights.graphics: unknown key; "
        "did you mean compute.real_utilization.weights.graphics_engine?"
    ],
    "weights-all-zero": [
        ":3: compute.real_utilization.weights.sm: and the other weights are all 0; allowed: at least one above 0"
    ],
}
"""What is said of each bad fixture, after the name of the file; FILE stands for that name."""


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".bad.yml") for path in FIXTURES.glob("*.bad.yml")))
def test_bad_fixture(name: str) -> None:
    file = FIXTURES / f"{name}.bad.yml"
    with pytest.raises(ConfigError) as caught:
        check(file)
    lines = str(caught.value).splitlines()
    assert sorted(lines) == [f"{file}{line}".replace("FILE", str(file)) for line in BAD[name]]
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None  # pydantic's error repeats what it was given
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_every_expectation_has_its_fixture() -> None:
    assert set(BAD) == {path.name.removesuffix(".bad.yml") for path in FIXTURES.glob("*.bad.yml")}


@pytest.mark.parametrize("name", ["empty", "only-comments", "empty-sections"])
def test_nothing_given_is_the_default(name: str) -> None:
    assert check(FIXTURES / f"{name}.good.yml") == Config()


def test_everything_given() -> None:
    config = check(FIXTURES / "everything.good.yml")
    exporter, replay = config.source.exporter, config.source.replay
    assert config.listen == ("127.0.0.1:9401", "[::1]:9401", ":9402")
    assert (config.telemetry_path, config.max_requests, config.node) == ("/gpu/metrics", 0, "007")
    assert (config.log.level, config.log.format) == ("warn", "json")
    assert (config.source.kind, config.source.interval, config.source.stale_after) == ("replay", 0.1, 60.0)
    assert (exporter.timeout, exporter.max_page_bytes, exporter.username) == (2.5, 3 * 2**19, "12345")
    assert exporter.password == "0123"
    assert exporter.insecure_skip_verify
    assert replay.columns == ("GPUTL", "POWER")
    assert (replay.speed, replay.loop, replay.start) == (10.0, True, 1770087906.0)
    assert config.source.demo.seed == -3
    assert config.publish.passthrough
    given_weights = Weights(sm=1, graphics_engine=3)
    assert given_weights.scaled() == Weights(sm=0.25, graphics_engine=0.75)
    assert config.compute_settings() == ComputeSettings(
        missing="zero",
        real_utilization=RealUtilizationSettings("custom", given_weights, min_coverage=0, histogram=()),
        workload=WorkloadSettings("kempnerpulse", 0.5, ClassThresholds(io_bytes_per_second=2e9, idle_dram_ratio=1)),
        idle=IdleSettings(2**30),
    )


def test_relative_files_count_from_the_configuration_file() -> None:
    config = check(FIXTURES / "everything.good.yml")
    exporter = config.source.exporter
    assert config.state_dir == str(FIXTURES / "state")
    assert config.source.replay.path == str(FIXTURES / "capture.txt")
    assert exporter.ca_file == str(FIXTURES / "ca.pem")
    assert exporter.key_file == "/etc/pulsed/client.key"
    assert [target.url for target in exporter.targets] == [
        "https://a:9400/metrics",
        str(FIXTURES / "pages/b.prom"),
        "/srv/c.prom",
        "file:///srv/d.prom",
    ]
    assert load(None, ["source.replay.path=capture.txt"], {}).source.replay.path == "capture.txt"


def test_files_and_folders_of_this_machine(tmp_path: Path) -> None:
    """Checked on request only: a configuration may be for another machine."""
    file, page = tmp_path / "pulsed.yaml", tmp_path / "page.prom"
    page.write_text("")
    file.write_text(
        f"""
state_dir: {page}/state
source:
  exporter:
    targets: [gpu1, page.prom, http://gpu2:9400/metrics]
    username: ops
    password_file: password
    ca_file: page.prom
    cert_file: none.pem
  replay: {{path: capture.txt, speed: fast}}
"""
    )
    with pytest.raises(ConfigError) as caught:
        check(file, on_this_machine=True)
    found = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert sorted(re.split(r"; | \[X509", line.removeprefix("pulsed.yaml:"))[0] for line in found) == [
        "10: source.replay.path: capture.txt does not exist",
        "10: source.replay.speed: 'fast' is not allowed",
        "2: state_dir: page.prom/state does not exist, and page.prom is not a folder",
        "5: source.exporter.targets[0]: gpu1 is not a file",
        "7: source.exporter.password_file: cannot read the password file password: No such file or directory",
        "8: source.exporter.ca_file: page.prom cannot be used:",
        "9: source.exporter.cert_file: none.pem cannot be used: No such file or directory",
    ]
    assert found[1].endswith("; for an exporter, write http://gpu1:9400/metrics")
    with pytest.raises(ConfigError, match=r"^\S+: source.replay.speed: [^\n]+$"):
        check(file)


def test_every_good_fixture_loads() -> None:
    for file in FIXTURES.glob("*.good.yml"):
        check(file)


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        (
            "source: {kind: exporter, exporter: {kubernetes: {scheme: https}}}",
            {"source.exporter.kubernetes.scheme": "it needs discovery: kubernetes"},
        ),
        (
            "source: {kind: exporter, exporter: {discovery: kubernetes, targets: http://b}}",
            {"source.exporter.targets": "it needs discovery: static, and that is kubernetes"},
        ),
        ("source: {kind: nvml, replay: {path: a}, dcgmi: {groups: [core]}}", None),
        ("publish: {otlp: {interval: 5s}}", {"publish.otlp.interval": "it needs enabled"}),
        ("publish: {otlp: {enabled: false}}", {}),
        ("source: {kind: demo, nvml: , exporter: {kubernetes: {scheme: }}}", {}),
        ("web: {systemd_socket: true}\nlisten: :9401", {"listen": "web.systemd_socket replaces it"}),
        ("kubernetes: {conditions: {heartbeat: 1m}}", {"kubernetes.conditions.heartbeat": "it needs enabled"}),
        ("attribution: {workloads: {pod_labels: team}}", {"attribution.workloads.pod_labels": "it needs enabled"}),
        ("prices: {currency: USD}", {"prices.currency": "it needs a price"}),
        ("prices: {currency: USD, kwh: 0.3}", {}),
    ],
)
def test_keys_without_effect(tmp_path: Path, text: str, unused: Mapping[str, str] | None) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text(text)
    found = check(file).unused
    assert found == load(file, (), {}).unused
    if unused is None:
        unused = dict.fromkeys(("source.replay.path", "source.dcgmi.groups"), "source.kind is nvml")
    lines = [line.removeprefix(f"{file}:").partition(": ")[2] for line in found]
    assert sorted(lines) == sorted(f"{key}: has no effect; {reason}" for key, reason in unused.items())


# Where values come from


def test_flag_over_set_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("log: {level: error}\nmax_requests: 1\nnode: file\nsource: {demo: {seed: 1}}\n")
    environment = {"PULSED_LOG__LEVEL": "warn", "PULSED_MAX_REQUESTS": "2", "PULSED_NODE": "environment"}
    overrides = ["log.level=debug", "max_requests=3", "max_requests=4"]
    config = load(file, overrides, environment, {"log.level": ("--log.level", "info")})
    assert config.log.level == "info"
    assert config.max_requests == 4
    assert config.node == "environment"
    assert config.source.demo.seed == 1
    assert config.telemetry_path == "/metrics"


def test_mappings_merge_and_lists_replace(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("listen: [':1', ':2']\nsource: {interval: 20s, exporter: {timeout: 3s}}\n")
    config = load(file, ["source.exporter={timeout: 4s}"], {"PULSED_LISTEN": "[':3']"})
    assert config.listen == (":3",)
    assert (config.source.interval, config.source.exporter.timeout) == (20.0, 4.0)


def test_null_resets_to_the_default(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("node: file\nsource: {interval: 20s, exporter: {timeout: 3s}}\n")
    config = load(file, ["source.exporter=null", "node="], {"PULSED_SOURCE__INTERVAL": "~"})
    assert config == Config()


def test_file_from_the_environment(tmp_path: Path) -> None:
    named, given = tmp_path / "named.yaml", tmp_path / "given.yaml"
    named.write_text("node: named\n")
    given.write_text("node: given\n")
    environment = {"PULSED_CONFIG_FILE": str(named)}
    assert load(None, (), environment).node == "named"
    assert load(given, (), environment).node == "given"
    assert load(None, (), {"PULSED_CONFIG_FILE": ""}) == Config()


def test_byte_order_mark_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_bytes(b"\xef\xbb\xbfnode: a\n")
    assert check(file).node == "a"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.yaml", "No such file"),
        (".", "not a regular file"),
        ("fifo", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("large", "larger than 262144 bytes"),
    ],
)
def test_unreadable_file(tmp_path: Path, name: str, reason: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(400 * 2**20)
    (line,) = problems(file=tmp_path / name)
    assert line.startswith(f"{tmp_path / name}: cannot be read: {reason}")
    assert "name a YAML file" in line


def test_targets_by_environment() -> None:
    one = {"PULSED_SOURCE__EXPORTER__TARGETS": "http://a:9400/metrics"}
    two = {"PULSED_SOURCE__EXPORTER__TARGETS": "[http://a:9400/metrics, http://b:9400/metrics]"}
    urls = [[target.url for target in load(None, (), given).source.exporter.targets] for given in (one, two)]
    assert urls == [["http://a:9400/metrics"], ["http://a:9400/metrics", "http://b:9400/metrics"]]


def test_labels_of_targets(tmp_path: Path) -> None:
    """Labels are texts as written; names of files count from the folder of the configuration file."""
    file = tmp_path / "pulsed.yaml"
    file.write_text(
        "source:\n  exporter:\n    targets:\n"
        "      - http://a:9400/metrics\n"
        "      - {url: pages/b.prom, labels: {rack: 007, zone: b, empty: ''}}\n"
        f"      - {{url: 'http://u:{SECRET}@c:9400/metrics', labels: {{rack: r1}}}}\n"
    )
    config = check(file)
    a, b, c = config.source.exporter.targets
    assert (a.url, a.labels) == ("http://a:9400/metrics", {})
    assert (b.url, b.labels) == (str(tmp_path / "pages/b.prom"), {"rack": "007", "zone": "b"})
    assert c.labels == {"rack": "r1"}
    shown = config.masked()["source"]["exporter"]["targets"]  # type: ignore[index]  # JSON
    assert shown[0] == "http://a:9400/metrics"
    assert shown[2] == {"url": "http://***@c:9400/metrics", "labels": {"rack": "r1"}}
    assert file in set(config.secret_files(file))
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("{labels: {rack: r1}}", "has no url"),
        ("{url: http://a, label: {rack: r1}}", "has the unknown key label"),
        ("{url: http://a, labels: {gpu: '1'}}", "has the label gpu, which the series of GPUs have themselves"),
        ("{url: http://a, labels: {a-b: c}}", "has the label 'a-b', which is not a name of a label"),
        ("{url: http://a, labels: [rack]}", "has labels that are not texts by name"),
        ("{url: ftp://a}", "does not begin with http:// or https://"),
        (f"{{url: http://a, labels: {{rack: {'r' * 257}}}}}", "has the label rack with more than 256 characters"),
        (f"{{url: http://a, labels: {{{', '.join(f'l{n}: a' for n in range(33))}}}}}", "has more than 32 labels"),
    ],
)
def test_wrong_targets(target: str, problem: str) -> None:
    (line,) = problems([f"source.exporter.targets=[http://b, {target}]"])
    assert line.startswith(f"--set: source.exporter.targets[1]: a mapping {problem}; allowed: a URL such as ")


def test_a_target_is_given_once() -> None:
    (line,) = problems(["source.exporter.targets=[http://a, http://b, {url: http://a, labels: {rack: r1}}]"])
    assert "targets: a list has the target number 1 again as number 3; allowed: " in line


@pytest.mark.parametrize("key", ["discovery: dns", "file: {files: a.json}", "http: {url: http://a}", "shard: {of: 2}"])
def test_removed_keys_name_what_to_do(key: str) -> None:
    (line,) = problems([f"source.exporter={{{key}}}"])
    assert " was removed; " in line
    assert "source.exporter.targets" in line


def test_a_removed_key_in_the_environment() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, (), {"PULSED_SOURCE__EXPORTER__SHARD__INDEX": "pulsed-0"})
    assert "source.exporter.shard.index was removed; run one daemon per node" in str(caught.value)


def test_ipv6_needs_no_quotes_outside_of_a_file() -> None:
    assert load(None, ["listen=[::1]:9401"], {}).listen == ("[::1]:9401",)
    assert load(None, (), {"PULSED_LISTEN": "[::1]:9401"}).listen == ("[::1]:9401",)
    assert load(None, (), {}, {"listen": ("--web.listen-address", ["[::1]:9401", ":0"])}).listen == ("[::1]:9401", ":0")


def test_bare_port_listens_on_all_interfaces() -> None:
    assert load(None, ["listen=9401"], {}).listen == (":9401",)


@pytest.mark.parametrize("word", ["yes", "on", "true", "True"])
def test_words_for_true(word: str) -> None:
    assert load(None, [f"publish.passthrough={word}"], {}).publish.passthrough


def test_flags_have_keys_and_are_texts() -> None:
    flags = {"max_requests": "7", "source.kind": "demo", "telemetry_path": "/m"}
    config = load(None, (), {}, {key: (f"--{key}", value) for key, value in flags.items()})
    assert (config.max_requests, config.source.kind, config.telemetry_path) == (7, "demo", "/m")


def test_problems_name_where_they_come_from(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("max_requests: -1\n")
    lines = problems(
        ["log.format=xml", "sorce.kind=demo", "publish={a"],
        {"PULSED_SOURCE__DEMO__SEED": "lucky"},
        {"log.level": ("--log.level", "loud")},
        file,
    )
    (no_yaml,) = [line for line in lines if "not valid YAML" in line]
    assert re.fullmatch(r"--set: not valid YAML: .* \(key publish\)", no_yaml)
    assert sorted(set(lines) - {no_yaml}) == [
        "--log.level: log.level: 'loud' is not allowed; allowed: debug, info, warn, error",
        "--set: log.format: 'xml' is not allowed; allowed: logfmt, json",
        "--set: sorce: unknown key; did you mean source?",
        f"{file}:1: max_requests: -1 is not allowed; allowed: a whole number, 0 or more",
        "environment variable PULSED_SOURCE__DEMO__SEED: source.demo.seed: 'lucky' is not allowed; "
        "allowed: a whole number",
    ]


@pytest.mark.parametrize("override", [SECRET, f"={SECRET}", f"source. exporter={SECRET}", f"a b={SECRET}"])
def test_set_without_a_key(override: str) -> None:
    assert problems([override]) == ["--set number 1: must be key.path=value, as in --set source.interval=15s"]


def test_unknown_environment_variable_names_the_nearest() -> None:
    environment = {"PULSED_SOURCE__EXPORTER__TARGET": SECRET, "PULSED_LOG_LEVEL": "debug", "PULSED_QUUX": "9401"}
    environment["PULSED_ADAPTER__INTERVAL"] = "5s"
    assert problems(environment=environment) == [
        "environment variable PULSED_ADAPTER__INTERVAL: adapter.interval was removed; "
        "scale with KEDA or prometheus-adapter: helm/pulsed/README.md#autoscaling",
        "environment variable PULSED_LOG_LEVEL: no key has this name; did you mean PULSED_LOG__LEVEL?",
        "environment variable PULSED_QUUX: no key has this name; see docs/configuration.md",
        "environment variable PULSED_SOURCE__EXPORTER__TARGET: no key has this name; "
        "did you mean PULSED_SOURCE__EXPORTER__TARGETS?",
    ]


def test_kubernetes_service_variables_are_left_alone() -> None:
    links = {
        "PULSED_SERVICE_HOST": "10.96.0.10",
        "PULSED_SERVICE_PORT": "9401",
        "PULSED_SERVICE_PORT_METRICS": "9401",
        "PULSED_PORT": "tcp://10.96.0.10:9401",
        "PULSED_PORT_9401_TCP": "tcp://10.96.0.10:9401",
        "PULSED_PORT_9401_TCP_PROTO": "tcp",
        "PULSED_PORT_9401_TCP_PORT": "9401",
        "PULSED_PORT_9401_TCP_ADDR": "10.96.0.10",
        "PULSED_GPU_METRICS_SERVICE_HOST": "10.96.0.11",  # of a Service `pulsed-gpu-metrics`
        "PULSED_GPU_METRICS_PORT": "tcp://10.96.0.11:9401",
        "PATH": "/bin",
    }
    assert load(None, (), links) == Config()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("listen: " + "[" * 100, "it is nested deeper than 50 levels"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
            "it has more than 100000 values",
        ),
    ],
    ids=["deep", "unfolding"],
)
def test_files_that_would_exhaust_the_process(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text(text)
    assert problems(file=file) == [f"{file}: not a configuration: {reason}"]


def test_a_file_nested_deeper_than_the_stack_is_refused(tmp_path: Path) -> None:
    """Newer versions of libyaml have a limit of their own, which it reaches while it looks ahead."""
    file = tmp_path / "pulsed.yaml"
    file.write_text("listen: " + "[" * 100_000)
    (problem,) = problems(file=file)
    assert re.fullmatch(rf"{file}(:1:[0-9]+)?: not .*(nested deeper than 50 levels|maximum nesting depth)", problem)


# Secrets


@pytest.mark.parametrize(
    "exporter",
    [
        {"username": "u", "password": SECRET},
        {"bearer_token": SECRET},
        {"targets": [f"http://u:{SECRET}@a:9400/metrics", f"http://a/metrics?token={SECRET}"]},
    ],
)
def test_secrets_are_never_shown(exporter: Mapping[str, object]) -> None:
    config = load(None, [f"source.exporter={json.dumps(exporter)}"], {})
    for shown in (repr(config), str(config), json.dumps(config.masked())):
        assert SECRET not in shown
    assert "***" in json.dumps(config.masked())


def test_no_url_is_shown_with_its_login() -> None:
    url = f"http://u:{SECRET}@host.example:8080/x"
    accepted = []
    for path, key in all_keys(Config).items():
        if key.kind is None or "URL" not in key.kind.allowed:
            continue
        try:
            shown = json.dumps(load(None, [f"{path}={json.dumps(url)}"], {}).masked())
        except ConfigError as error:
            shown = str(error)
        else:
            accepted.append(path)
        assert SECRET not in shown, path
    assert {"source.exporter.targets", "publish.otlp.url"} <= set(accepted)


def test_masked_is_the_rest_as_it_is() -> None:
    masked = load(None, ["source.exporter={username: u, password: p}", "node=n"], {}).masked()
    assert masked["node"] == "n"
    source = masked["source"]
    assert isinstance(source, dict)
    exporter = source["exporter"]
    assert isinstance(exporter, dict)
    assert exporter["username"] == "u"
    assert set(str(exporter["password"])) == {"*"}
    assert exporter["targets"] == ["http://localhost:9400/metrics"]


@pytest.mark.parametrize("secret", ["a: b #c", "0123", "null", "", "[x", "*x", "'x'", "a\nb"])
def test_secret_of_the_environment_is_taken_as_it_is(secret: str) -> None:
    environment = {"PULSED_SOURCE__EXPORTER__USERNAME": "u", "PULSED_SOURCE__EXPORTER__PASSWORD": secret}
    assert load(None, (), environment).source.exporter.password == secret


@pytest.mark.parametrize(
    "text",
    [
        f"source: {{exporter: {{password: *{SECRET}}}}}",
        f"source: {{exporter: {{password: !{SECRET} x}}}}",
        f"source: {{exporter: {{password: '{SECRET}}}}}",
        f"source: {{exporter: {{password: @{SECRET}}}}}",
        f"source: {{exporter: [{{password: {SECRET}}}]}}",
        f"source: {{exporter: {{bearer_token: {{a: {SECRET}}}}}}}",
        f"source: {{exporter: {{targets: [{{a: {SECRET}}}]}}}}",
        f"source: {{exporter: {{targets: 'http://u:{SECRET}@[a'}}}}",
        f"source: {{exporter: {{targets: 'u:{SECRET}/x@a:9400'}}}}",
    ],
)
def test_errors_never_show_secrets(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text(text)
    assert SECRET not in "\n".join(problems(file=file))
    assert SECRET not in "\n".join(problems([text.replace(": ", "=", 1)]))


def test_password_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret \n")
    ExporterSettings(targets=(ExporterTarget("a"),), username="u", password_file=str(file)).check_password_file()
    ExporterSettings().check_password_file()
    with pytest.raises(ConfigError, match=r"cannot read .*missing: No such file"):
        ExporterSettings(username="u", password_file=str(tmp_path / "missing")).check_password_file()


# What follows


def test_the_interval_is_by_default_the_one_of_the_kind() -> None:
    assert load(None, (), {}).source.seconds() is None
    assert load(None, ["source.kind=exporter"], {}).source.seconds() == 15.0
    assert load(None, ["source={kind: dcgmi, interval: 0.1}"], {}).source.seconds() == 0.1
    assert load(None, ["source.kind=demo"], {}).source.seconds() == 1.0
    assert load(None, ["source={kind: replay, replay: {path: x}}"], {}).source.seconds() is None
    assert load(None, ["source={kind: demo, interval: 2}"], {}).source.seconds() == 2.0


def test_defaults_are_those_of_compute() -> None:
    assert Config().compute_settings() == ComputeSettings()
    assert asdict(Config().compute.workload.thresholds) == asdict(ClassThresholds())


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_presets(preset: Preset) -> None:
    settings = load(None, [f"compute.real_utilization.preset={preset}"], {}).compute_settings()
    assert (settings.real_utilization.chosen_weights(), settings.real_utilization.preset) == (PRESETS[preset], preset)


def test_configuration_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().node = "other"  # type: ignore[misc]  # that is the test


@given(
    st.sampled_from(["listen", "source.interval", "source.exporter.targets", "source.replay.start", "compute"]),
    st.text(max_size=60) | st.text("[]{}:,-*&!'\"# \n0129.eE@/", max_size=30),
)
def test_whatever_is_set_is_read_or_refused(key: str, text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert load(None, [f"{key}={text}"], {}).compute_settings()


# What is written about it


def test_manual_is_current() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == manual(), "python -m tools.generate_docs"


def test_example_is_current() -> None:
    text = (ROOT / "config.example.yaml").read_text(encoding="utf-8")
    assert text == example(), "python -m tools.generate_docs"


def test_example_is_the_default() -> None:
    assert check(ROOT / "config.example.yaml") == Config()


def test_a_placeholder_has_one_meaning() -> None:
    kinds = {(key.kind.name, key.kind.allowed) for key in all_keys(Config).values() if key.kind}
    names = [name for name, _ in kinds]
    assert sorted(names) == sorted(set(names))


def test_every_key_has_a_description() -> None:
    assert [key for key, field in all_keys(Config).items() if not field.description] == []


WITH_CERTIFICATES = ("source.exporter", "publish.otlp")
WITH_OTHERS = {
    "source.exporter.username": ["source.exporter.password=p"],
    "source.exporter.password": ["source.exporter.username=u"],
    "source.exporter.password_file": ["source.exporter.username=u"],
    **{f"{section}.key_file": [f"{section}.cert_file=c"] for section in WITH_CERTIFICATES},
}
"""What some keys cannot be without."""


def test_every_key_of_the_example_can_be_uncommented(tmp_path: Path) -> None:
    lines = (ROOT / "config.example.yaml").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "pulsed.yaml"
    seen: list[str] = []
    path: list[str] = []
    for number, line in enumerate(lines):
        if not (entry := re.fullmatch(r"( *)(#?)(\w+):(.*)", line)):
            continue
        path[len(entry[1]) // 2 :] = [entry[3]]
        seen.append(key := ".".join(path))
        if entry[2]:
            file.write_text("\n".join([*lines[:number], line.replace("#", "", 1), *lines[number + 1 :]]))
            config = load(file, WITH_OTHERS.get(key, ()), {})
            field = all_keys(Config)[key]
            if field.example is None:
                assert config == Config(), key
            elif key not in WITH_OTHERS:
                assert config != Config(), key
    assert seen == list(all_keys(Config))


def test_replay_start_is_as_the_manual_says() -> None:
    assert load(None, ["source.replay.start=2026-01-01T00:00:00Z"], {}).source.replay.start == DEFAULT_START


def test_every_value_says_what_is_allowed() -> None:
    for key, field in all_keys(Config).items():
        assert field.section or field.kind or field.words, key


@pytest.mark.parametrize(
    ("web", "prefix", "external_path"),
    [
        ({}, "", ""),
        ({"external_url": "https://example.org"}, "", ""),
        ({"external_url": "https://example.org:8443/a/pulsed/"}, "/a/pulsed", "/a/pulsed"),
        ({"external_url": "https://example.org/pulsed", "route_prefix": "/"}, "", "/pulsed"),
        ({"route_prefix": "pulsed/"}, "/pulsed", ""),
    ],
)
def test_the_route_prefix_is_by_default_the_path_of_the_external_url(
    web: dict[str, str], prefix: str, external_path: str
) -> None:
    config = load(None, [f"web={json.dumps(web)}"], {})
    assert (config.web.prefix, config.web.external_path) == (prefix, external_path)


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("source.max_gpus", 5000, "source.exporter.max_gpus"),
        ("attribution.workloads.enabled", True, "attribution.kubernetes.enabled"),
    ],
)
def test_keys_with_a_second_name(tmp_path: Path, name: str, value: object, other: str) -> None:
    def value_of(config: Config) -> object:
        section, *rest = name.split(".")
        found: object = getattr(config, section)
        for each in rest:
            found = getattr(found, each)
        return found

    variable = "PULSED_" + other.upper().replace(".", "__")
    text = json.dumps(value)
    assert value_of(load(None, [f"{other}={text}"], {})) == value
    assert value_of(load(None, [], {variable: text})) == value
    assert value_of(load(None, [f"{other}={text}", "source.interval=5s"], {"PULSED_SOURCE__MAX_GPUS": "7"})) == value

    *sections, key = other.split(".")
    file = tmp_path / "pulsed.yaml"
    file.write_text("".join(f"{'  ' * depth}{part}:\n" for depth, part in enumerate(sections)) + f"    {key}: {text}\n")
    assert value_of(check(file)) == value
    file.write_text(file.read_text() + "    enabledd: true\n")
    with pytest.raises(ConfigError, match=": unknown key"):
        check(file)


def test_receivers_are_shown_by_host_and_program() -> None:
    hook = "https://hooks.slack.com/services/T0/B0/secret"
    config = load(None, (f"notify.webhook.url={hook}", "notify.exec=[/bin/mail, --token, secret]"), {})
    shown = str(config.masked()["notify"])
    assert "'url': 'https://hooks.slack.com/**********'" in shown
    assert "'exec': ['/bin/mail', '**********']" in shown
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("{partition: p}", "has no reason"),
        ("{reason: r}", "needs one of partition, account, label"),
        ("{user: ann, reason: r}", "has the unknown key user"),
        ("interactive", "is not a mapping"),
        ("{label: [a], reason: r}", "has a value that is not a text"),
    ],
)
def test_an_exemption_that_is_not_valid(written: str, text: str) -> None:
    (line,) = problems([f"findings.exempt=[{written}]"])
    assert text in line


def test_exemptions() -> None:
    settings = load(
        None, ["findings.exempt=[{partition: 007, reason: old}, {label: app=x, account: lab, reason: r}]"], {}
    )
    assert [each.written for each in settings.findings.exempt] == [
        {"partition": "007", "reason": "old"},
        {"account": "lab", "label": "app=x", "reason": "r"},
    ]
