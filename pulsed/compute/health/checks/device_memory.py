"""Device memory: errors, and the repairs that follow them."""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import DAY, HOUR, REMAP_INPUTS, RETIRED_INPUTS, XID_INPUTS, flag, step
from pulsed.compute.health.rule import Check, Events, Growth, Level, When

CHECKS: tuple[Check, ...] = (
    Check(
        id="ecc_uncorrectable",
        title="Uncorrected memory errors",
        rule="crit while there are any since the driver was loaded, and for 24 h after the board's own count grew",
        rules=(
            flag("ecc_dbe_volatile_total", "crit"),
            step("ecc_dbe_aggregate_total", "crit", DAY, lifetime=True),
        ),
        remedy="Uncorrected memory errors may have spoiled results: drain, reset the GPU, then check row remapping.",
        source="DCGM's memory watch",
    ),
    Check(
        id="memory_unrepairable",
        title="Memory cannot be repaired",
        rule="crit while the board reports memory that it cannot repair, or SRAM errors above its limit",
        rules=(flag("memory_unrepairable", "crit"), flag("ecc_sram_threshold_exceeded", "crit")),
        remedy="The GPU reports memory that it cannot repair: take the GPU out and open a replacement case.",
        source="DCGM's memory watch, NVIDIA's memory error management",
    ),
    Check(
        id="ecc_correctable_rate",
        title="Many corrected memory errors",
        rule="info above 10 within 1 h, warn above 100 within 24 h or at XID 92",
        rules=(
            Growth(
                name="ecc_corrected_per_hour",
                inputs=("ecc_sbe_volatile_total", "ecc_sbe_aggregate_total"),
                levels=(("info", 11.0),),
                window=HOUR,
                per=HOUR,
                hold=HOUR,
            ),
            Growth(
                name="ecc_corrected_per_day",
                inputs=("ecc_sbe_aggregate_total", "ecc_sbe_volatile_total"),
                levels=(("warn", 101.0),),
                window=DAY,
                per=DAY,
                hold=HOUR,
            ),
            Events(name="xid", inputs=XID_INPUTS, levels=(), choose=92, keep={"warn": HOUR}),
        ),
        remedy="Corrected errors are frequent: no action now, but watch remapped rows and plan a reset.",
        source="NVIDIA's memory error management, fleet practice",
    ),
    Check(
        id="row_remap_failed",
        title="Row repair failed",
        rule="crit while the board says that a row could not be replaced",
        rules=(flag("row_remap_failure", "crit"),),
        remedy="Row repair failed (spares used up or write failed): run field diagnostics and replace the GPU.",
        source="NVIDIA's memory error management",
        unless=RETIRED_INPUTS,
    ),
    Check(
        id="row_remap_pending",
        title="A memory repair waits for a reset",
        rule="warn while a row remapping or page retirement waits for a reset",
        rules=(flag("row_remap_pending", "warn"), flag("retired_pages_pending", "warn")),
        remedy="A memory repair waits for a reset: reset the GPU when the current jobs finish.",
        source="NVIDIA's memory error management",
    ),
    Check(
        id="row_remap_growth",
        title="Memory rows were replaced",
        rule="warn for 24 h after rows were replaced for uncorrected errors, and while a bank has no spare row; crit "
        "from 512 replaced rows on. An old number alone is ok: the memory is repaired",
        rules=(
            step("remapped_rows_uncorrectable_total", "warn", DAY, lifetime=True),
            Level(
                name="remapped_rows_uncorrectable",
                inputs=("remapped_rows_uncorrectable_total",),
                levels=(("crit", 512.0),),
            ),
            flag("remap_banks_no_spares", "warn"),
        ),
        remedy="New rows were replaced: fine once, but a growing number or a bank without spares means replacement "
        "soon.",
        source="NVIDIA's memory error management: 8 spare rows per bank, 512 in all",
        unless=RETIRED_INPUTS,
    ),
    Check(
        id="retired_pages",
        title="Many retired memory pages",
        rule="warn from 48 pages on, crit from 63, or when one is added within 7 d to more than 15 of uncorrected "
        "errors",
        rules=(
            Level(name="retired_pages", inputs=RETIRED_INPUTS, levels=(("warn", 48.0), ("crit", 63.0))),
            step(
                "retired_pages_dbe_total",
                "crit",
                7 * DAY,
                lifetime=True,
                when=(When("retired_pages_dbe_total", ">", 15.0),),
            ),
        ),
        remedy="Many memory pages are retired on this older GPU: plan its replacement.",
        source="DCGM's memory watch, NVIDIA's page retirement (64 at most)",
        unless=REMAP_INPUTS,
    ),
)
