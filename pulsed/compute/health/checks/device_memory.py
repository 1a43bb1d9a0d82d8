"""Device memory: errors, and the repairs that follow them."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks._builders import REMAP_INPUTS, RETIRED_INPUTS, flag, step
from pulsed.compute.health.counter_increase import Increase
from pulsed.compute.health.level import Level, total
from pulsed.compute.health.rule import DAY, HOUR, When
from pulsed.compute.health.xid_rule import XidRule

CHECKS: tuple[Check, ...] = (
    Check(
        id="ecc_uncorrectable",
        title="Uncorrected memory errors",
        rules=(
            Level(
                name="ecc_dbe_volatile_total",
                inputs=("ecc_dbe_volatile_total",),
                levels=(("crit", 1.0),),
                text="uncorrected errors since the driver was loaded",
            ),
            step("ecc_dbe_aggregate_total", "crit", DAY, "new uncorrected errors", lifetime=True),
        ),
        remedy="Uncorrected memory errors may have spoiled results: drain, reset the GPU, then check row remapping.",
        source="DCGM's memory watch",
    ),
    Check(
        id="memory_unrepairable",
        title="Memory cannot be repaired",
        rules=(
            flag("memory_unrepairable", "crit", "while the board reports memory that it cannot repair"),
            flag("ecc_sram_threshold_exceeded", "crit", "while SRAM errors are above their limit"),
        ),
        remedy="The GPU reports memory that it cannot repair: take the GPU out and open a replacement case.",
        source="DCGM's memory watch, NVIDIA's memory error management",
    ),
    Check(
        id="ecc_correctable_rate",
        title="Many corrected memory errors",
        rules=(
            Increase(
                name="ecc_corrected_per_hour",
                inputs=("ecc_sbe_volatile_total", "ecc_sbe_aggregate_total"),
                levels=(("info", 11.0),),
                text="corrected errors in 1 h",
                window=HOUR,
                per=HOUR,
                hold=HOUR,
            ),
            Increase(
                name="ecc_corrected_per_day",
                inputs=("ecc_sbe_aggregate_total", "ecc_sbe_volatile_total"),
                levels=(("warn", 101.0),),
                text="corrected errors in 24 h",
                window=DAY,
                per=DAY,
                hold=HOUR,
            ),
            XidRule(text="after XID 92", choose=92, keep={"warn": HOUR}),
        ),
        remedy="Corrected errors are frequent: no action now, but watch remapped rows and plan a reset.",
        source="NVIDIA's memory error management, fleet practice",
    ),
    Check(
        id="row_remap_failed",
        title="Row repair failed",
        rules=(flag("row_remap_failure", "crit", "while the board reports a row that could not be replaced"),),
        remedy="Row repair failed (spares used up or write failed): run field diagnostics and replace the GPU.",
        source="NVIDIA's memory error management",
        unless=RETIRED_INPUTS,
    ),
    Check(
        id="row_remap_pending",
        title="A memory repair waits for a reset",
        rules=(
            flag("row_remap_pending", "warn", "while a row remapping waits for a reset"),
            flag("retired_pages_pending", "warn", "while a page retirement waits for a reset"),
        ),
        remedy="A memory repair waits for a reset: reset the GPU when the current jobs finish.",
        source="NVIDIA's memory error management",
    ),
    Check(
        id="row_remap_growth",
        title="Memory rows were replaced",
        rules=(
            step(
                "remapped_rows_uncorrectable_total",
                "warn",
                DAY,
                "rows replaced for uncorrected errors",
                lifetime=True,
            ),
            Level(
                name="remapped_rows_uncorrectable",
                inputs=("remapped_rows_uncorrectable_total",),
                levels=(("crit", 512.0),),
                text="replaced rows in all",
            ),
            flag("remap_banks_no_spares", "warn", "while a bank has no spare row"),
        ),
        note="fewer rows that were replaced before are ok: the memory is repaired",
        remedy="New rows were replaced: fine once, but a growing number or a bank without spares means replacement "
        "soon.",
        source="NVIDIA's memory error management: 8 spare rows per bank, 512 in all",
        unless=RETIRED_INPUTS,
    ),
    Check(
        id="retired_pages",
        title="Many retired memory pages",
        rules=(
            Level(
                name="retired_pages",
                inputs=RETIRED_INPUTS,
                by=total,
                levels=(("warn", 48.0), ("crit", 63.0)),
                text="retired pages",
            ),
            step(
                "retired_pages_dbe_total",
                "crit",
                7 * DAY,
                "pages retired for uncorrected errors after the 15th",
                lifetime=True,
                when=(When("retired_pages_dbe_total", ">", 15.0),),
            ),
        ),
        remedy="Many memory pages are retired on this older GPU: plan its replacement.",
        source="DCGM's memory watch, NVIDIA's page retirement (64 at most)",
        unless=REMAP_INPUTS,
    ),
)
