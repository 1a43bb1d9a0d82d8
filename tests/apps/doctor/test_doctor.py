"""What `pulsed doctor` finds and advises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import pulsed.apps.doctor
from pulsed.cli import main
from tests.apps.doctor.setting import NO_USERS, configured, page, report, serving, told
from tests.support.daemon import pulsed as run_pulsed
from tests.support.dmon_writer import ERAS, DmonWriter
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_kubelet import kubelet, pods
from tests.support.samples import SAMPLES, needs_samples
from tests.support.standin.install import install
from tests.support.standin.scenario import PROFILING, Refusal, Scenario, gpus, with_mig

NOTHING_LACKS: Mapping[str, Mapping[str, list[str]]] = {
    "real_utilization": {},
    "workload_class": {},
    "class_energy_joules": {},
    "idle_seconds": {},
    "saturation": {},
}
"""Without health, whose inputs hardly any node has all, and results that were added later."""
PROF = tuple(PROFILING)
PROFILED = {"sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio"}


def missing(source: dict[str, object]) -> object:
    derived = source["derived"]
    assert isinstance(derived, list)
    return {each["name"]: each["missing"] for each in derived if each["name"] in NOTHING_LACKS}


def unhealthy(source: dict[str, object]) -> set[str]:
    """The inputs of health checks that are missing."""
    derived = source["derived"]
    assert isinstance(derived, list)
    (health,) = [each["missing"] for each in derived if each["name"] == "health"]
    return set(health)


# --- owners of GPUs


def test_each_attribution_source_and_how_to_have_it(tmp_path: Path) -> None:
    jobs, socket = tmp_path / "jobs", tmp_path / "kubelet.sock"
    config = {"attribution.jobs.directories": [str(jobs)], "attribution.kubelet.socket": str(tmp_path / "no" / "sock")}
    labelled = 'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="train-0",namespace="ml"} 1\n'
    with serving(labelled) as (url,):
        _, found = report(configured(exporter=url, kind="exporter", more=config))
        assert [(each["source"], each["works"], each["devices"]) for each in found["attribution"]] == [
            ("kubelet", False, 0),
            (str(jobs), False, 0),
            ("labels", True, 1),
        ]
    text = told(configured(more=config))
    assert f"owners of GPUs  kubelet: there is no kubelet; in a container, mount {tmp_path}/no\n" in text
    assert (
        f"{jobs}: there is no such directory; for Slurm jobs, install the prolog and epilog of deploy/slurm\n" in text
    )
    assert "labels: no pod or job is on the pages; dcgm-exporter writes them with DCGM_EXPORTER_KUBERNETES=true" in text

    jobs.mkdir()
    (jobs / "0").write_text("4711")
    working = configured(more=config | {"attribution.kubelet.socket": str(socket)})
    with kubelet(socket, lambda _: pods()):
        text = told(working)
    assert "kubelet: works, 0 with owners\n" in text
    assert f"{jobs}: works, 1 with owners\n" in text
    assert f"kubelet: {socket} cannot be used: No such file or directory. Check that the kubelet runs" in told(working)


# --- what relays change, and what a mode withholds


def rows(*names: str) -> str:
    return "".join(f'{name}{{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"}} 1\n' for name in names)


def test_names_that_are_not_known_are_listed() -> None:
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_LOAD", "dcgm_fi_dev_gpu_temp")
    with serving(rows(*names).replace(" 1\n", " 40\n")) as (url,):  # 1 could be a ratio
        config = configured(exporter=url, kind="exporter")
        (source,) = report(config)[1]["sources"]
        assert source["unknown_fields"] == ["DCGM_FI_DEV_GPU_LOAD"]
        assert {"gpu_utilization_ratio", "temperature_celsius"} <= set(source["quantities"])
        assert "ignored unknown names: DCGM_FI_DEV_GPU_LOAD" in told(config)


class BalancedExporters(Exporter):
    """Two exporters behind one address, which take turns."""

    def answer(self) -> str:
        """Return the page of the next one."""
        return f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-{self.asked % 2}",Hostname="node-{self.asked % 2}"}} 70\n'


def test_an_address_that_leads_to_several_exporters_is_named() -> None:
    with exporting({"metrics": BalancedExporters("")}) as begin:
        config = configured(exporter=f"{begin}metrics", kind="exporter")
        (source,) = report(config)[1]["sources"]
        assert source["alternating_hosts"] == ["node-0", "node-1"]
        assert "node-0, node-1: the pages of this address name other hosts in turns" in told(config)
    with serving(page()) as (url,):
        (source,) = report(configured(exporter=url, kind="exporter"))[1]["sources"]
        assert source["alternating_hosts"] == []


class ForgetfulExporter(Exporter):
    """An exporter whose pages name owners in turns."""

    def answer(self) -> str:
        """Return the next page."""
        pod = ',pod="train-0",namespace="ml"' if self.asked % 2 else ""
        return "".join(
            f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu}",UUID="GPU-{gpu}"{pod if gpu else ""}}} 70\n' for gpu in range(2)
        )


def test_labels_of_owners_that_come_and_go_are_named() -> None:
    with exporting({"metrics": ForgetfulExporter("")}) as begin:
        config = configured(exporter=f"{begin}metrics", kind="exporter")
        (source,) = report(config)[1]["sources"]
        assert source["flickering_owners"] == ["1"]
        assert "the owners of GPU 1 are on some pages only" in told(config)


def test_confidential_computing_is_the_reason_of_missing_counters() -> None:
    names = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_CC_MODE")
    with serving(rows(*names), rows(*names, "DCGM_FI_PROF_SM_ACTIVE")) as urls:
        confidential, devtools = (configured(exporter=url, kind="exporter") for url in urls)
        text = told(confidential)
        assert "GPU 0: confidential computing is on, which switches performance counters off" in text
        assert "PROF" not in text
        assert "confidential computing" not in told(devtools)


def test_confidential_computing_of_one_gpu_excuses_no_other() -> None:
    """Where both modes are on one node, and a relay has changed the case of the names."""
    text = "".join(
        f'dcgm_fi_dev_{name}{{gpu="{gpu}",UUID="GPU-{gpu}"}} {value}\n'
        for gpu, on in ((0, 1), (1, 0), (2, 1))
        for name, value in (("power_usage", 70), ("cc_mode", on))
    )
    with serving(text) as (url,):
        shown = told(configured(exporter=url, kind="exporter"))
    assert "GPU 0, 2: confidential computing is on" in shown
    assert "DCGM_FI_PROF_SM_ACTIVE" in shown, "GPU 1 lacks it for another reason"


# --- nothing


def test_a_machine_with_nothing_is_told_what_to_do() -> None:
    code, found = report(configured())
    assert code == 1
    assert (found["would_take"], found["can_serve"]) == (None, False)
    assert [(source["kind"], source["works"]) for source in found["sources"]] == [
        ("dcgmi", False),
        ("exporter", False),
        ("nvml", False),
    ]
    assert all(source["error"] for source in found["sources"])
    assert "--source demo" in found["advice"]
    text = told(configured())
    assert "Nothing can be served" in text
    assert "libnvidia-ml.so.1 is missing" in text


@pytest.mark.slow
@pytest.mark.parametrize("format", ["table", "json"])
def test_the_command(format: str) -> None:
    finished = run_pulsed("doctor", "--format", format, "--source", "demo")
    assert (finished.returncode, finished.stderr) == (0, "")
    if format == "json":
        assert json.loads(finished.stdout)["would_take"]["kind"] == "demo"
    nothing = ["--set=source.dcgmi.path=/nowhere", f"--set=source.exporter.targets={NO_USERS}"]
    finished = run_pulsed("doctor", "--format", format, *nothing)
    assert (finished.returncode, finished.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "is_told"), [("100ms", True), ("1s", False)])
def test_the_price_of_a_short_interval_is_told(interval: str, is_told: bool) -> None:
    finished = run_pulsed("doctor", "--source", "demo", f"--set=source.interval={interval}")
    assert ("2 % of the latency of decoding" in finished.stdout) == is_told


def test_only_what_is_asked_for_is_looked_at(tmp_path: Path) -> None:
    dcgmi = install(tmp_path, Scenario())
    with serving(page()) as (url,):
        code, found = report(configured(dcgmi, url, kind="exporter"))
    assert code == 0
    assert [source["kind"] for source in found["sources"]] == ["exporter"]
    assert found["would_take"] == {"kind": "exporter", "targets": [url], "why": "source.kind is exporter"}


def test_a_target_that_is_none_is_one_source_that_does_not_work(tmp_path: Path) -> None:
    """Not the end of the report: a file with a secret may be missing, the host engine works all the same."""
    dcgmi = install(tmp_path, Scenario())
    found = report(
        configured(dcgmi, more={"source.exporter.username": "a", "source.exporter.password_file": "/nowhere"})
    )[1]
    engine, exporter, _ = found["sources"]
    assert engine["works"]
    assert "/nowhere" in exporter["error"]


# --- exporters


def test_an_exporter_that_lacks_counters_is_told_which_lines_to_add() -> None:
    with serving(page()) as (url,):
        code, found = report(configured(exporter=url))
        text = told(configured(exporter=url))
    assert code == 0
    assert found["would_take"] == {"kind": "exporter", "targets": [url], "why": "it works, and dcgmi does not"}
    exporter = found["sources"][1]
    assert exporter["version"] == "dcgm-exporter 3.5.0 to 4.8.2"
    assert [gpu["name"] for gpu in exporter["gpus"]] == ["0", "1"]
    assert exporter["nodes"] == ["n0"]
    assert {"power_watts", "dram_active_ratio"} <= set(exporter["quantities"])
    both = ["0", "1"]
    assert missing(exporter) == {
        **NOTHING_LACKS,
        "real_utilization": {"sm_active_ratio": both},
        "workload_class": {"sm_active_ratio": both, "fp64_active_ratio": both},
    }
    lines = [line.split(",")[:2] for line in exporter["supply"]]
    assert ["DCGM_FI_DEV_PCIE_LINK_WIDTH", " gauge"] in lines, "health needs lines, too"
    assert exporter["supply_newer"]["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"] == "4.8.4"
    assert lines[:2] == [
        ["DCGM_FI_PROF_SM_ACTIVE", " gauge"],
        ["DCGM_FI_PROF_PIPE_FP64_ACTIVE", " gauge"],
    ]
    for words in ("customMetrics=", "default-counters.csv", "dcgmExporter:", "metrics-config", "pulsed counters --exp"):
        assert words in text
    assert "SYS_ADMIN" not in text, "it may profile"


def test_a_page_without_any_profiling_counter_may_lack_the_permission() -> None:
    with serving(page(without=("PROF_",))) as (url,):
        text = told(configured(exporter=url))
    assert "SYS_ADMIN" in text
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, " in text


def test_a_page_that_has_everything_needs_nothing() -> None:
    with serving(page(without=())) as (url,):
        (exporter,) = report(configured(exporter=url, kind="exporter"))[1]["sources"]
    assert missing(exporter) == NOTHING_LACKS
    lacking = {"recovery_action", "memory_unrepairable", "fabric_manager_status", "pcie_link_width", "mig_mode"}
    assert unhealthy(exporter) == lacking
    assert [line.partition(",")[0] for line in exporter["supply"]] == [
        "DCGM_FI_DEV_MAX_SM_CLOCK",
        "DCGM_FI_DEV_PCIE_LINK_WIDTH",
        "DCGM_FI_DEV_MIG_MODE",
    ]


def test_a_page_without_gpus_is_a_source_without_gpus() -> None:
    with serving('DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="0"} 40\n') as (url,):
        code, found = report(configured(exporter=url))
        assert "lists no GPU" in told(configured(exporter=url))
    assert code == 1
    assert not found["sources"][1]["works"]
    assert "lists no GPU" in found["sources"][1]["error"]


def test_a_page_of_something_else_is_not_a_source() -> None:
    with serving("go_goroutines 12\n") as (url,):
        code, found = report(configured(exporter=url))
    assert code == 1
    assert not found["sources"][1]["works"]
    assert (
        "None of its 1 samples comes from dcgm-exporter (DCGM_*); the first is go_goroutines"
        in (found["sources"][1]["error"])
    )


def test_targets_that_are_equal_are_reported_once() -> None:
    with serving(*[page(2)] * 12, page(1), "up 1\n") as urls:
        config = configured(exporter=[*urls, NO_USERS], kind="exporter")
        text, (_, found) = told(config), report(config)
        (alone,) = (told(configured(exporter=urls[0], kind="exporter")),)
    assert len(found["sources"]) == 15
    assert "12 targets (dcgm-exporter 3.5.0 to 4.8.2): each works, 2 x NVIDIA" in text
    assert f"    targets: {', '.join(urls[:8])} and 4 more\n" in text
    assert f"{urls[12]} (dcgm-exporter 3.5.0 to 4.8.2): works, 1 x NVIDIA" in text
    assert len(text.splitlines()) < 2.5 * len(alone.splitlines())


def test_several_exporters_are_taken_without_asking_the_host_engine(tmp_path: Path) -> None:
    dcgmi = install(tmp_path, Scenario())
    with serving(page(1), page(1)) as urls:
        code, found = report(configured(dcgmi, [*urls, NO_USERS]))
    assert code == 0
    assert [source["works"] for source in found["sources"]] == [True, True, False]
    assert found["would_take"]["kind"] == "exporter"
    assert found["would_take"]["targets"] == urls


# --- host engines


def test_a_host_engine_that_has_everything(tmp_path: Path) -> None:
    code, found = report(configured(install(tmp_path, Scenario(gpus=gpus("hopper", 2)))))
    assert code == 0
    assert found["would_take"]["kind"] == "dcgmi"
    engine = found["sources"][0]
    assert engine["version"] == "dcgmi 4.4.1, host engine 4.4.1"
    assert [gpu["model"] for gpu in engine["gpus"]] == ["NVIDIA H100 80GB HBM3"] * 2
    assert missing(engine) == NOTHING_LACKS


def test_an_engine_that_is_away_says_how_to_start_it(tmp_path: Path) -> None:
    code, found = report(configured(install(tmp_path, Scenario(engine=False)), kind="dcgmi"))
    assert code == 1
    (engine,) = found["sources"]
    assert "systemctl start nvidia-dcgm" in engine["error"]
    assert engine["version"] == "dcgmi 4.4.1"


@pytest.mark.slow
def test_an_exporter_that_holds_the_profiling_counters_is_preferred(tmp_path: Path) -> None:
    dcgmi = install(tmp_path, Scenario(gpus=gpus("ampere", 1), refusals=(Refusal("profiling_held", PROF),)))
    with serving(page()) as (url,):
        code, found = report(configured(dcgmi, url))
    assert code == 0
    assert "use the source exporter" in found["sources"][0]["lost_fields"]["profiling_held"]["why"]
    assert found["would_take"]["kind"] == "exporter"
    assert "held by another process" in found["would_take"]["why"]
    alone = report(configured(dcgmi))[1]
    assert alone["would_take"]["kind"] == "dcgmi"
    assert "held by another process" in alone["would_take"]["why"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        ("needs_root", "Run nv-hostengine as root or with CAP_SYS_ADMIN"),
        ("module_not_loaded", "needs a data center or workstation GPU"),
        ("profiling_held", "let both share one engine"),
    ],
)
def test_refused_fields_come_with_the_remedy(tmp_path: Path, failure: str, remedy: str) -> None:
    dcgmi = install(tmp_path, Scenario(gpus=gpus("ampere", 1), refusals=(Refusal(failure, PROF),)))
    config = configured(dcgmi, kind="dcgmi")
    (engine,) = report(config)[1]["sources"]
    assert set(missing(engine)["real_utilization"]) == PROFILED  # type: ignore[index]
    (refused,) = (line for line in engine["supply"] if "1002 PROF_SM_ACTIVE" in line)
    (reason,) = (reason for reason in engine["lost_fields"] if reason != "field_refused")
    assert refused.startswith(f"refused, {reason.replace('_', ' ')}: ")
    assert remedy in told(config)


def test_a_gpu_without_profiling_still_gives_the_plain_fields(tmp_path: Path) -> None:
    code, found = report(configured(install(tmp_path, Scenario(gpus=gpus("geforce", 1))), kind="dcgmi"))
    assert code == 0
    lacks = missing(found["sources"][0])
    assert isinstance(lacks, dict)
    assert lacks["real_utilization"].keys() == PROFILED
    assert (lacks["class_energy_joules"], lacks["idle_seconds"]) == ({}, {})
    assert "profiling_unavailable" in found["sources"][0]["lost_fields"]


def test_instances_need_nothing_that_only_a_board_has(tmp_path: Path) -> None:
    first, second = gpus("ampere", 2)
    dcgmi = install(tmp_path, Scenario(gpus=(with_mig(first, "1g.10gb", "2g.20gb"), second)))
    config = configured(dcgmi, kind="dcgmi")
    (engine,) = report(config)[1]["sources"]
    assert [gpu["mig"] is not None for gpu in engine["gpus"]].count(True) == 2
    assert len(engine["gpus"]) == 3, "the split board speaks through its instances"
    assert missing(engine) == NOTHING_LACKS
    assert "works, 2 x NVIDIA A100-SXM4-80GB (1 of them split into 2 MIG instances)" in told(config)


def test_health_of_a_split_board_lacks_what_its_page_lacks(tmp_path: Path) -> None:
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="a"'
    fields = {"PROF_GR_ENGINE_ACTIVE": 0.5, "DEV_FB_USED": 100, "DEV_GPU_TEMP": 40}
    page = tmp_path / "page.prom"
    page.write_text("".join(f"DCGM_FI_{name}{{{labels}}} {value}\n" for name, value in fields.items()))
    (source,) = report(configured(exporter=[str(page)], kind="exporter"))[1]["sources"]
    lacks = {each["name"]: each["missing"] for each in source["derived"]}
    assert lacks["health"]["ecc_dbe_volatile_total"] == ["0"]
    assert lacks["real_utilization"]["sm_active_ratio"] == ["0:7"]
    assert lacks["class_energy_joules"]["energy_joules_total"] == ["0"]
    assert any("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" in line for line in source["supply"])


def test_an_engine_without_rights_that_answers_nothing_but_na(tmp_path: Path) -> None:
    (engine,) = report(configured(install(tmp_path, Scenario(all_blank=True)), kind="dcgmi"))[1]["sources"]
    assert {"not under a service account" in line for line in engine["supply"]} == {True}


def test_profiling_that_is_answered_with_na(tmp_path: Path) -> None:
    dcgmi = install(tmp_path, Scenario(blank_fields=(1002, 156, 155)))
    (engine,) = report(configured(dcgmi, kind="dcgmi"))[1]["sources"]
    assert [line.partition(". ")[0] for line in engine["supply"]] == [
        "answered with N/A: 1002 PROF_SM_ACTIVE",
        "answered with N/A: 156 DEV_TOTAL_ENERGY_CONSUMPTION, 1523 DEV_GET_GPU_RECOVERY_ACTION,"
        " 1507 DEV_MEMORY_UNREPAIRABLE_FLAG, 170 DEV_FABRIC_MANAGER_STATUS",
    ]


def test_fields_that_nobody_asked_for(tmp_path: Path) -> None:
    dcgmi = install(tmp_path, Scenario())
    (engine,) = report(configured(dcgmi, kind="dcgmi", groups=["health"]))[1]["sources"]
    unasked = [line for line in engine["supply"] if line.startswith("not asked for")]
    assert [line.partition("Add ")[2] for line in unasked] == [
        "core to source.dcgmi.groups",
        "nvlink to source.dcgmi.groups",
    ]


# --- recordings


def test_a_recording_is_told_what_to_record(tmp_path: Path) -> None:
    writer = DmonWriter(ERAS["C1"], [1001, 155])
    path = tmp_path / "capture.txt"
    path.write_text(writer.header() + writer.tick([("GPU 0", [0.5, 150.0])]))
    config = configured(kind="replay", more={"source.replay.path": str(path)})
    code, found = report(config)
    assert code == 0
    (recording,) = found["sources"]
    assert any(line.startswith("not in the recording: 1002 PROF_SM_ACTIVE") for line in recording["supply"])


def test_a_column_without_values_is_in_the_recording(tmp_path: Path) -> None:
    writer = DmonWriter(ERAS["C1"], [1002, 155])
    path = tmp_path / "capture.txt"
    path.write_text(writer.header() + writer.tick([("GPU 0", [None, 150.0])]))
    (recording,) = report(configured(kind="replay", more={"source.replay.path": str(path)}))[1]["sources"]
    assert "N/A in the recording: 1002 PROF_SM_ACTIVE" in recording["supply"]


# --- sample pages

PAGES = sorted(SAMPLES.glob("exporter/*.prom"))


@pytest.mark.parametrize("sample", PAGES, ids=lambda sample: sample.stem)
def test_the_report_of_a_real_page_has_each_line_once(sample: Path) -> None:
    config = configured(exporter=[str(sample)], kind="exporter")
    lines = [line.strip() for line in told(config).splitlines()]
    counters = [line for line in lines if line.startswith("DCGM_")]
    assert len(counters) == len(set(counters))
    (source,) = report(config)[1]["sources"]
    named = [gpus for derived in source["derived"] for gpus in derived["missing"].values()]
    assert all(len(gpus) == len(set(gpus)) for gpus in named)


@needs_samples
@pytest.mark.parametrize(
    ("name", "works"),
    [
        ("exporter-4x-h100-8gpu-pod-partial", "8 x NVIDIA H100 80GB HBM3"),
        ("exporter-3x-a800-8gpu-mixed-mig", "8 x NVIDIA A800-SXM4-80GB (1 of them split into 3 MIG instances)"),
        ("exporter-3x-a100-mig-3inst-active", "1 x NVIDIA A100-SXM4-40GB (split into 3 MIG instances)"),
        ("exporter-4x-t4-whole-page", "1 x Tesla T4"),
    ],
)
def test_gpus_are_counted_by_board(name: str, works: str) -> None:
    text = told(configured(exporter=[str(SAMPLES / "exporter" / f"{name}.prom")], kind="exporter"))
    assert f"works, {works}\n" in text
    assert "16 GPUs" not in text


@needs_samples
def test_what_a_t4_and_a_vgpu_guest_cannot_have_is_not_recommended() -> None:
    (t4,) = report(configured(exporter=[str(SAMPLES / "exporter/exporter-4x-t4-whole-page.prom")], kind="exporter"))[1][
        "sources"
    ]
    for word in ("NVLINK", "FABRIC", "MEMORY_TEMP", "REMAP"):
        assert not [line for line in [*t4["supply"], *t4["supply_newer"]] if word in line], word
    guest = configured(exporter=[str(SAMPLES / "exporter/exporter-4x-vgpu-h100-20c-pod.prom")], kind="exporter")
    (source,) = report(guest)[1]["sources"]
    assert (source["supply"], source["steps"], source["without_profiling"]) == ([], [], ["0"])
    assert "vGPU guests, consumer boards before Blackwell" in told(guest)


def test_the_version_of_the_exporter_can_be_given() -> None:
    with serving(page()) as (url,):
        finished = run_pulsed(
            "doctor", "--source=exporter", f"--set=source.exporter.targets={url}", "--exporter-version=4.8.4"
        )
    assert "(dcgm-exporter 4.8.4)" in finished.stdout
    assert "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION, gauge, " in finished.stdout
    assert "The page shows only" not in finished.stdout


def test_a_dcgm_exporter_that_is_too_old_for_the_product_is_to_be_updated(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    model = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    page.write_text(
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-1",device="nvidia0",modelName="{model}",Hostname="n"}} 58\n'
    )
    text = told(configured(exporter=[str(page)], kind="exporter"))
    assert f"dcgm-exporter 3.4.2 or older is too old for {model}" in text
    assert "Update to dcgm-exporter 4 or newer" in text


def test_the_configuration_of_the_service_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = tmp_path / "config.yaml"
    monkeypatch.setattr(pulsed.apps.doctor, "SERVICE_FILE", service)
    service.write_text("source: {kind: demo}\n")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"configuration   {service}\n")
    assert "pulsed serve would read demo" in out
    other = tmp_path / "other.yaml"
    other.write_text("source: {kind: demo}\n")
    assert main(["doctor", "--config.file", str(other)]) == 0
    assert not capsys.readouterr().out.startswith("configuration")
    assert main(["doctor", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["would_take"]["kind"] == "demo"
    service.write_text("sauce: 1\n")
    assert main(["doctor"]) == 2
    assert f"{service}:1: sauce: unknown key" in capsys.readouterr().err
