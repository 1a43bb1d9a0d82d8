"""The checks of a GPU's health: the one table behind results, documentation and alerts.

Sources: NVIDIA's memory error, XID and NVML documentation, DCGM 4.6's health module, and fleet practice where these
are silent. Inputs that are not in a `Reading` are in `pulsed.compute.health.inputs.FACTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import eq, gt, lt

from pulsed.compute.health.check import Check, check
from pulsed.compute.health.inputs import ACTIVITY, LINK_LOAD, SEVERITY_INPUTS
from pulsed.compute.health.measures import (
    MILD_RESULT,
    PCIE_LIMIT_INPUTS,
    dcgm_result,
    faults,
    imex_was_ready,
    links_down,
    of_data_centre,
    outlier_recoveries,
    pcie_generation_ratio,
    pcie_replay_limit,
    pcie_width_ratio,
    requested_action,
)
from pulsed.compute.health.rule import Measure, Rule, When, difference, distance, total
from pulsed.compute.health.rule_kinds import DIAG_FAILED, DIAG_WARNED, Codes, DiagResults, Duty, Increase, Lanes, step
from pulsed.compute.health.windows import HW_THERMAL_BIT, POWER_BRAKE_BIT, SW_THERMAL_BIT, UNNAMED_BIT
from pulsed.compute.health.xid_rule import CRITICAL_SECONDS, XidRule
from pulsed.compute.health.xids import FALLEN_OFF_BUS, RECOVERY_ADVICE, RESET_LATER
from pulsed.compute.sample import FRESH_SECONDS
from pulsed.durations import DAY, HOUR, MINUTE, in_words
from pulsed.model.health import State
from pulsed.model.vocabulary import QUANTITIES

_REMAP_INPUTS = ("row_remap_failure", "row_remap_pending", "remapped_rows_uncorrectable_total")

_RETIRED_INPUTS = ("retired_pages_sbe_total", "retired_pages_dbe_total")

_CRC_ERRORS = ("nvlink_crc_errors_total", "nvlink_crc_flit_errors_total", "nvlink_crc_data_errors_total")

_DIAG_RESULTS = tuple(name for name in QUANTITIES if name.startswith("diag_"))

_SOURCE = "NVML's clocks event reasons"


def _pending(name: str, text: str) -> Rule:
    """Return a rule for a repair that waits for a reset: it is kept for a day while its input is absent."""
    return Rule(name, {"warn": 1}, text, number="", lasts=DAY)


def _defect(name: str, state: State, text: str) -> Rule:
    """Return a rule for a defect that no reset repairs: it is kept for a day while its input is absent."""
    return Rule(name, {state: 1}, text, number="", lasts=DAY, ends_with_reset=False)


def _above(name: str, levels: Mapping[State, float], limit: str, inputs: tuple[str, str], fallback: str) -> Rule:
    """Return a rule for a temperature relative to a limit of the device, otherwise of its model."""
    text = f"°C relative to the {limit}"
    return Rule(
        name, levels, text, inputs, number="from {:+g}", by=difference, fallback=fallback, enter=30.0, clear=3.0
    )


def _slowdown(reason: str, levels: Mapping[State, float], text: str, bits: int) -> Duty:
    """Return a rule for clocks that are reduced for a reason with a counter of its own."""
    return Duty(f"{reason}_ratio", levels, text, (f"{reason}_slowdown_seconds_total",), bits=bits)


def _event_count(reason: str, state: State) -> Rule:
    """Return a rule for dcgm-exporter's count of a clock event, for pages without `clocks_event_reasons`."""
    return Rule(
        f"clock_event_{reason}", {state: 3}, "samples with it in dcgm-exporter's window", enter=MINUTE, hold=5 * MINUTE
    )


def _below_maximum(quantity: str, levels: Mapping[State, float], text: str, by: Measure) -> Rule:
    """Return a rule for a PCIe link that has less than it can while the GPU is active.

    An idle link has a lower generation, and on some boards fewer lanes. Workstation boards are in P1 or P2 at full
    load.
    """
    kind = Lanes if quantity == "width" else Rule
    return kind(
        f"pcie_{quantity}_ratio",
        levels,
        f"of the device's {text} in P0 to P2 and while active, without a P-state from {LINK_LOAD:.0%} activity on",
        (f"pcie_link_{quantity}", f"pcie_link_{quantity}_max"),
        number="below {:.0%}",
        by=by,
        below=True,
        shown=("performance_state", ACTIVITY),
        when=(When("pcie_load", eq, 1),),
        enter=MINUTE,
    )


_BRAKE = _slowdown("power_brake", {"warn": 0.05}, "the power brake", POWER_BRAKE_BIT)

_REPLAYS = Increase(
    "pcie_replays_over_limit",
    {"warn": 1.000001},
    "times the replays that the specified bit error rate explains",
    ("pcie_replays_total", "pcie_correctable_errors_total"),
    number="above {:g}",
    window=MINUTE,
    per=MINUTE,
    limit=pcie_replay_limit,
    other_inputs=PCIE_LIMIT_INPUTS,
    enter=MINUTE,
    hold=10 * MINUTE,
)

CHECKS: tuple[Check, ...] = (
    # Whether the GPU and its readings are available, what the driver requests, and the errors that it reports.
    check(
        "gpu_lost",
        "The GPU does not answer",
        Rule(
            "polls_missed",
            {"crit": 2},
            "polls in a row without an answer while other GPUs answer, or without the GPU after XID 79, `fallen off "
            "the bus`, the driver's error that it is lost, or on the PCI bus without a driver; until it answered for "
            f"{in_words(MINUTE)}",
            release=MINUTE,
        ),
        XidRule(text=f"after XID {FALLEN_OFF_BUS}", choose=FALLEN_OFF_BUS, keep={"crit": MINUTE}),
        note="without such evidence, a GPU that its source no longer lists raises `telemetry`",
        remedy="The GPU stopped answering on PCIe: drain and restart the node; if it repeats, reseat the board and "
        "check its power.",
        source="NVML errors 15 and 28, XID 79",
        guest=True,
    ),
    check(
        "recovery_action",
        "The driver requests a recovery action",
        Codes(
            "recovery_action",
            text="action",
            codes={"warn": (3, 5), "crit": (1, 2, 4, 6, 7)},
            beyond="warn",
            actions=RECOVERY_ADVICE,
            by=requested_action,
            lasts=DAY,
        ),
        note="without this reading, the action of the last XID 154 in the kernel log, until a reset",
        remedy="The driver requests recovery action {recovery_action:g}: {advice}.",
        source="NVML nvmlDeviceGetGpuRecoveryAction, DCGM field 1523",
    ),
    check(
        "telemetry",
        "Readings are absent, blank or frozen",
        Rule(
            "polls_unlisted",
            {"warn": 2},
            "polls in a row in which the source lists other GPUs, not this one",
            detail="the source no longer lists this GPU",
            remedy="Nothing shows that the GPU is faulty: compare the source with `nvidia-smi -L`; an exporter with "
            "DRA lists only claimed GPUs. After planned removal run `pulsed health --forget GPU`.",
        ),
        Rule(
            "inputs_blank_ratio",
            {"warn": 0.5},
            "of the inputs that the GPU once had blank",
            number="from {:.0%}",
            enter=30.0,
        ),
        Rule(
            "inputs_age_seconds",
            {"warn": FRESH_SECONDS},
            "and 3 intervals without a current temperature, power, clock, utilization or energy",
            number="after {:g} s",
        ),
        note="blank and frozen readings are not current",
        remedy="Readings are stale: check the host engine or the exporter, then run nvidia-smi; if it hangs, drain "
        "and restart the node.",
        source="pulsed",
        guest=True,
        cause="telemetry",
    ),
    check(
        "xid_critical",
        "An XID that needs a reset or a restart",
        XidRule(
            inputs=SEVERITY_INPUTS,
            text="after an XID of severity crit, or until a reset",
            choose="critical",
            keep={"crit": CRITICAL_SECONDS},
        ),
        note="an XID that is older than the first sample counts only if another input confirms it",
        remedy="XID {xid:g} needs a GPU reset or node restart: {advice}, and look at the kernel log.",
        recurs="It came back: run field diagnostics before the GPU gets new jobs.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    check(
        "xid_warning",
        "An XID that is not critical",
        XidRule(
            inputs=SEVERITY_INPUTS,
            text="after an XID of that severity, or until a reset",
            choose="warning",
            keep={"info": 10 * MINUTE, "warn": HOUR},
        ),
        note="unknown XIDs are warn; a critical one is warn after its 24 h until the GPU is reset; 45 does not count",
        remedy="XID {xid:g} on this GPU: {advice}, and watch whether the code returns.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    check(
        "xid_repeat",
        "A repeated XID",
        XidRule(
            text="after the same XID came in 5 bursts (3 min apart), or 31 in 3 bursts across 2 programs; not 45",
            choose="repeated",
            keep={"info": DAY, "warn": DAY},
        ),
        note="info for a code that programs cause while the same program had the GPU each time: it is the suspect; "
        "where the kernel log names GPC and TPC, the same place in 3 bursts is warn, and different places are info",
        remedy="XID {xid:g} repeats on one GPU: {advice}.",
        source="NVSentinel",
        guest=True,
    ),
    # Device memory: errors, and the repairs that follow them.
    check(
        "ecc_uncorrectable",
        "Uncorrected memory errors",
        Rule("ecc_dbe_volatile_total", {"crit": 1}, "uncorrected errors since the driver was loaded", lasts=DAY),
        step("ecc_dbe_aggregate_total", "crit", "new uncorrected errors", DAY, lifetime=True),
        remedy="Uncorrected memory errors may have corrupted results: warn the owner, drain the node, reset the GPU, "
        "then check row remapping.",
        recurs="It came back: run field diagnostics and plan the replacement of the GPU.",
        source="DCGM's memory watch",
    ),
    check(
        "memory_unrepairable",
        "Memory cannot be repaired",
        _defect("memory_unrepairable", "crit", "while the board reports memory that it cannot repair"),
        _defect("ecc_sram_threshold_exceeded", "crit", "while SRAM errors are above their limit"),
        remedy="The GPU reports memory that it cannot repair: take the GPU out of service and open a replacement case.",
        source="DCGM's memory watch, NVIDIA's memory error management",
    ),
    check(
        "ecc_correctable_rate",
        "Many corrected memory errors",
        Increase(
            "ecc_corrected_per_hour",
            {"info": 11},
            "corrected errors",
            ("ecc_sbe_volatile_total", "ecc_sbe_aggregate_total"),
            window=HOUR,
            per=HOUR,
            hold=HOUR,
        ),
        Increase(
            "ecc_corrected_per_day",
            {"warn": 101},
            "corrected errors",
            ("ecc_sbe_aggregate_total", "ecc_sbe_volatile_total"),
            window=DAY,
            per=DAY,
            hold=HOUR,
        ),
        XidRule(text="after XID 92", choose=92, keep={"warn": HOUR}),
        remedy="Corrected errors are frequent: no action now, but watch remapped rows and plan a reset.",
        source="NVIDIA's memory error management, fleet practice",
    ),
    check(
        "row_remap_failed",
        "Row repair failed",
        _defect("row_remap_failure", "crit", "while the board reports a row that could not be replaced"),
        remedy="Row repair failed (spares used up or write failed): run field diagnostics and replace the GPU.",
        source="NVIDIA's memory error management",
        unless=_RETIRED_INPUTS,
    ),
    check(
        "row_remap_pending",
        "A memory repair waits for a reset",
        _pending("row_remap_pending", "while a row remapping waits for a reset"),
        _pending("retired_pages_pending", "while a page retirement waits for a reset"),
        remedy=f"A memory repair waits for a reset: {RESET_LATER}.",
        source="NVIDIA's memory error management",
    ),
    check(
        "row_remap_growth",
        "Memory rows were replaced",
        step("remapped_rows_uncorrectable_total", "warn", "rows replaced for uncorrected errors", DAY, lifetime=True),
        Rule(
            "remapped_rows_uncorrectable",
            {"crit": 512},
            "replaced rows in all",
            ("remapped_rows_uncorrectable_total",),
            lasts=DAY,
            ends_with_reset=False,
        ),
        _defect("remap_banks_no_spares", "warn", "while a bank has no spare row"),
        note="rows replaced earlier are ok",
        remedy="Memory rows were replaced: once is harmless, but if the number grows or a bank has no spares, plan "
        "to replace the GPU.",
        critical="Few spare rows are left: drain the node and replace the GPU.",
        source="NVIDIA's memory error management: 8 spare rows per bank, 512 in all",
        unless=_RETIRED_INPUTS,
    ),
    check(
        "retired_pages",
        "Many retired memory pages",
        Rule(
            "retired_pages",
            {"warn": 48, "crit": 63},
            "retired pages",
            _RETIRED_INPUTS,
            by=total,
            lasts=DAY,
            ends_with_reset=False,
        ),
        step(
            "retired_pages_dbe_total",
            "crit",
            "pages retired for uncorrected errors after the 15th",
            7 * DAY,
            lifetime=True,
            ends_with_reset=False,
            when=(When("retired_pages_dbe_total", gt, 15),),
        ),
        remedy="Many memory pages are retired on this older GPU: plan its replacement.",
        critical="The limit of retired memory pages is reached: drain the node and replace the GPU.",
        source="DCGM's memory watch, NVIDIA's page retirement (64 at most)",
        unless=_REMAP_INPUTS,
    ),
    # Clocks that are reduced because of heat.
    check(
        "thermal_hw",
        "Hardware cuts the clocks because of heat",
        _slowdown("hardware_thermal", {"hot": 0.05, "crit": 0.5}, "the hardware because of heat", HW_THERMAL_BIT),
        _event_count("hw_thermal", "hot"),
        remedy="Hardware protection cuts the clocks: check fans, airflow, coolant and nearby nodes now.",
        source=_SOURCE,
        cause="cooling",
    ),
    check(
        "thermal_sw",
        "The driver lowers the clocks because of heat",
        _slowdown("software_thermal", {"hot": 0.1}, "the driver because of heat", SW_THERMAL_BIT),
        Duty(
            "thermal_violation_ratio",
            {"hot": 0.1},
            "heat according to a violation counter",
            ("thermal_violation_seconds_total",),
            uncertain=True,
        ),
        remedy="The driver lowers clocks to stay cool: improve cooling or reduce the load.",
        source=_SOURCE,
        cause="cooling",
    ),
    # Temperatures against the limits of the GPU.
    check(
        "temp_margin",
        "Close to the GPU's own temperature limit",
        Rule(
            "temperature_margin_celsius",
            {"warn": 5, "hot": 0, "crit": -2},
            "below the limit",
            number="at {:g} °C or less",
            below=True,
            enter=10.0,
            clear=3.0,
        ),
        remedy="The margin to the GPU's own temperature limit is {temperature_margin_celsius:g} °C (negative: "
        "exceeded): check fans, airflow and coolant, or reduce the load.",
        source="NVML's T.Limit: slowdown at -2 °C on H100, H200, Ada and Blackwell",
        unless=("slowdown_temperature_celsius", "max_operating_temperature_celsius"),
        cause="cooling",
    ),
    check(
        "temp_gpu",
        "The die is too warm",
        _above(
            "above_max_operating_celsius",
            {"warn": -5, "hot": 0},
            "highest operating temperature",
            ("temperature_celsius", "max_operating_temperature_celsius"),
            fallback="max_operating",
        ),
        _above(
            "above_slowdown_celsius",
            {"crit": 0},
            "slowdown temperature",
            ("temperature_celsius", "slowdown_temperature_celsius"),
            fallback="slowdown",
        ),
        note="only without a margin; limits are the device's, otherwise the model's",
        remedy="The die is near its slowdown temperature: check the cooling, and heat from neighbouring devices.",
        critical="The die has reached its slowdown temperature: check fans, airflow, coolant and nearby nodes now.",
        source="NVML's temperature thresholds",
        superseded_by="temperature_margin_celsius",
        cause="cooling",
    ),
    check(
        "temp_memory",
        "The memory is too warm",
        _above(
            "above_memory_max_celsius",
            {"warn": -3, "hot": 0},
            "memory's highest operating temperature",
            ("memory_temperature_celsius", "memory_max_operating_temperature_celsius"),
            fallback="memory",
        ),
        remedy="Memory is too hot: increase the airflow; hot memory causes errors before a hot die does.",
        source="NVML's temperature thresholds",
        cause="cooling",
    ),
    # Clocks that are reduced because of power.
    check(
        "power_brake",
        "The power brake slows the GPU",
        _BRAKE,
        replace(_BRAKE, name="power_brake_long_ratio", levels={"crit": 0.6}, window=10 * MINUTE, enter=0.0),
        _event_count("hw_power_brake", "warn"),
        remedy="The power brake slows the GPU: check the power supply, cables and rack power.",
        source=_SOURCE,
        cause="power",
    ),
    check(
        "hw_slowdown",
        "Hardware slows the clocks for an unnamed reason",
        Duty(
            "hardware_slowdown_ratio",
            {"warn": 0.2},
            "the hardware of a busy GPU for neither heat nor the power brake",
            (),
            bits=UNNAMED_BIT,
        ),
        Duty(
            "board_limit_ratio",
            {"warn": 0.2},
            "the board's limits according to a violation counter",
            ("board_limit_violation_seconds_total", "reliability_violation_seconds_total"),
            uncertain=True,
        ),
        remedy="Hardware slows the clocks for an unnamed reason: check temperature, power and firmware logs.",
        source=_SOURCE,
        cause="power",
    ),
    # PCIe, NVLink and the fabric.
    check(
        "pcie_replay",
        "Too many PCIe replays",
        _REPLAYS,
        replace(
            _REPLAYS,
            name="pcie_replays_long_over_limit",
            levels={"crit": 10.000001},
            text="times as many",
            window=5 * MINUTE,
        ),
        remedy="Too many PCIe replays: reseat the board or riser and check the slot.",
        source="PCIe's bit error rate of 1e-12, as in DCGM's PCIe watch",
    ),
    check(
        "pcie_link",
        "The PCIe link is narrower or slower than possible",
        _below_maximum("width", {"warn": 0.999, "crit": 0.499}, "lanes", pcie_width_ratio),
        _below_maximum("generation", {"warn": 0.999}, "PCIe generation", pcie_generation_ratio),
        note="info for lanes at full speed that all GPUs of this model on the node lacked from their first sample on, "
        "and in a virtual machine for lanes that the GPU lacked from its first sample on",
        remedy="The PCIe link is narrower or slower than the GPU supports: {advice}.",
        source="the device's own maximum; links idle at a lower generation",
    ),
    check(
        "nvlink_errors",
        "NVLink errors",
        Increase(
            "nvlink_crc_errors_per_minute",
            {"warn": 1, "crit": 6000},
            "CRC errors",
            _CRC_ERRORS,
            window=MINUTE,
            per=MINUTE,
            hold=10 * MINUTE,
        ),
        step("nvlink_replay_errors_total", "warn", "replays", 10 * MINUTE),
        step("nvlink_recovery_errors_total", "warn", "recoveries", 10 * MINUTE),
        step("nvlink_receive_errors_total", "warn", "receive errors", 10 * MINUTE),
        step("nvlink_link_recoveries_total", "warn", "link recoveries", 10 * MINUTE),
        step("nvlink_link_recoveries_failed_total", "crit", "failed link recoveries", 10 * MINUTE),
        Rule(
            "nvlink_effective_bit_error_ratio",
            {"warn": 1.000001e-12, "crit": 1.000001e-6},
            "effective bit errors per bit",
            number="above {:g}",
            hold=10 * MINUTE,
        ),
        Rule(
            "nvlink_recoveries_of_one_link",
            {"info": 1, "warn": 100},
            "recoveries of one link while no other has any: it may fail within days",
            ("nvlink_counters",),
            by=outlier_recoveries,
        ),
        remedy="NVLink errors: check cables or bridge; a failed recovery needs a GPU reset.",
        critical="An NVLink fails repeatedly: stop the jobs on this GPU, reset it, and check cables or bridge.",
        source="DCGM's NVLink watches",
        cause="fabric",
        required=(*_CRC_ERRORS, "nvlink_receive_errors_total", "nvlink_effective_bit_error_ratio"),
    ),
    check(
        "nvlink_down",
        "NVLinks are down",
        Rule(
            "nvlinks_down",
            {"crit": 1},
            "NVLinks that have been up, or that all boards of the model have, not up",
            ("nvlink_states",),
            by=links_down,
            number="from {:g}",
            other_inputs=("mig_mode",),
            enter=MINUTE,
        ),
        note="links that are off by design do not count; dcgm-exporter needs DCGM_FI_DEV_NVLINK_GET_STATE (a series "
        "per link) in its counters file",
        remedy="NVLinks are down: check cables or bridge, restart the fabric manager, then reset the GPU.",
        source="NVML's state of each link, DCGM field 1508",
        cause="fabric",
    ),
    check(
        "nvlink_fault",
        "NVLink fault",
        XidRule(
            inputs=SEVERITY_INPUTS,
            text="after one of the XIDs 144 to 150, or until a reset",
            choose="nvlink",
            keep={"info": 10 * MINUTE, "warn": HOUR, "crit": CRITICAL_SECONDS},
        ),
        note="the kernel's message decides: fatal is crit, not fatal warn, an injected test info; without it the "
        "severity of the code; info for a GPU whose fault follows from another one of the fabric within a minute "
        "(dcgm-exporter: labels DCGM_FI_DEV_FABRIC_CLUSTER_UUID and _CLIQUE_ID)",
        remedy="XID {xid:g} is a fault of an NVLink: {advice}.",
        recurs="It came back: run field diagnostics before the GPU gets new jobs.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    check(
        "fabric_link",
        "The NVLink fabric is not usable",
        Codes("fabric_manager_status", text="fabric manager status", codes={"crit": (1, 4, 5, 6)}, enter=MINUTE),
        Codes("fabric_manager_status", text="fabric manager status", codes={"warn": (2,)}, enter=5 * MINUTE),
        Rule(
            "fabric_health_mask",
            {"crit": 1},
            "faults in the fabric's health mask",
            by=faults(((0, 2, 1, 1), (2, 2, 1, 1), (4, 2, 1, 1), (6, 2, 1, 1), (8, 4, 2, 15))),
            enter=MINUTE,
        ),
        Codes("fabric_health_summary", text="fabric health summary", codes={"crit": (2,), "warn": (3,)}, enter=MINUTE),
        remedy="A link or fabric partition is not usable: restart the fabric manager, then reset the GPUs on it.",
        source="NVML's fabric information, DCGM's fabric watch",
        cause="fabric",
    ),
    # DCGM's own health watches, settings of the GPU, heat while idle, and wear.
    check(
        "c2c_errors",
        "Errors of the chip-to-chip link",
        *[
            Increase(
                f"c2c_{kind}_errors_per_minute",
                {"warn": 1, "crit": 6000},
                text,
                (f"c2c_{kind}_errors_total",),
                window=MINUTE,
                per=MINUTE,
                hold=10 * MINUTE,
            )
            for kind, text in (("crc", "CRC errors"), ("replay", "replays"))
        ],
        step("c2c_repeated_replay_errors_total", "warn", "replays that follow another one at once", 10 * MINUTE),
        remedy="The link between CPU and GPU of the superchip retransmits data: compare its rate with other nodes, "
        "and reset the GPU when the current jobs finish; if it repeats, open a case with the vendor.",
        source="limits of NVLink; DCGM fields 1400 to 1402",
        optional=True,
    ),
    check(
        "imex",
        "The IMEX daemon is not ready",
        Rule(
            "imex_lost",
            {"warn": 1},
            "while the IMEX daemon of the node is not ready, and was before",
            ("imex_daemon_status",),
            number="",
            by=imex_was_ready,
            enter=MINUTE,
            hold=10 * MINUTE,
        ),
        note="not raised on a node whose daemon was never ready, which is normal without a domain",
        remedy="Memory cannot be shared between nodes: run `nvidia-imex-ctl -q`, check nvidia-imex.service on all "
        "nodes of the domain, and restart it.",
        source="DCGM field 1503",
        optional=True,
        cause="fabric",
    ),
    check(
        "dcgm_diag",
        "A test of dcgmi diag did not pass",
        DiagResults(
            "diag_result",
            {"info": DIAG_WARNED, "warn": DIAG_FAILED},
            "of the last run on the node: 2 warned, 3 failed",
            _DIAG_RESULTS,
            number="at {:g}",
        ),
        note="never crit: the result concerns the node, not one GPU",
        remedy="The last `dcgmi diag` of this node did not pass: read its output, or run it again with `-r 2` while "
        "no job runs, to find the GPU.",
        source="DCGM fields 350 to 361 and 363",
        optional=True,
        cause="dcgm_diag",
    ),
    check(
        "dcgm_health",
        "A DCGM health watch reports a problem",
        Rule(
            "dcgm_health_result",
            {"info": MILD_RESULT, "warn": 10},
            "of a DCGM health watch (10 warning, 20 failure)",
            ("health_watches",),
            by=dcgm_result,
            number="from result {:g}",
            other_inputs=("recovery_action",),
            enter=5 * MINUTE,
            hold=10 * MINUTE,
        ),
        note="only where pulsed has no inputs for the same cause; never crit; known false alarms are ignored",
        remedy="A DCGM health watch reports a problem for which pulsed has no inputs: {advice}.",
        source="DCGM's health watches, through dcgm-exporter",
    ),
    check(
        "config_drift",
        "Unexpected GPU settings",
        Rule("inforom_valid", {"warn": 0}, "while the InfoROM is invalid", number="", below=True),
        Rule(
            "ecc_mode_pending_change",
            {"warn": 1},
            "while an ECC mode waits for a reset",
            ("ecc_mode", "ecc_mode_pending"),
            number="",
            by=distance,
        ),
        Rule(
            "ecc_mode", {"warn": 0}, "while ECC is off on a data-centre GPU", number="", by=of_data_centre, below=True
        ),
        Rule("persistence_mode", {"info": 0}, "while persistence mode is off", number="", below=True),
        remedy="Unexpected GPU settings: compare InfoROM, ECC and persistence mode with the other GPUs.",
        source="DCGM's InfoROM watch, fleet practice",
        optional=True,
    ),
    check(
        "hot_idle",
        "Hot while idle",
        Rule(
            "temperature_celsius",
            {"warn": 70},
            "with less than 10% activity",
            number="from {:g} °C",
            when=(When(ACTIVITY, lt, 0.1),),
            enter=30 * MINUTE,
            clear=3.0,
        ),
        remedy="The GPU is hot while idle: check its cooling and its processes.",
        source="OCI's GPU scanner",
        optional=True,
        cause="cooling",
    ),
    check(
        "smoothing_wear",
        "The power smoothing circuit wears out",
        Rule(
            "power_smoothing_lifetime_remaining_ratio",
            {"warn": 0.1, "crit": 0},
            "of its life left",
            number="at {:.0%} or less",
            below=True,
        ),
        note="0 counts on products with this circuit, or after a value above 0",
        remedy="The power smoothing circuit is worn: schedule service for this board.",
        source="DCGM field 1432",
        optional=True,
    ),
)
"""All checks, in the order in which they are published."""

BY_ID: Mapping[str, Check] = {check.id: check for check in CHECKS}
"""By id."""
