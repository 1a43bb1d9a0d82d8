"""Device memory: errors, and the repairs that follow them."""

from __future__ import annotations

from operator import gt

from pulsed.compute.health.check import check
from pulsed.compute.health.counter_increase import Increase, step
from pulsed.compute.health.level import Level, total
from pulsed.compute.health.rule import DAY, HOUR, When
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.health.xids import RESET_LATER

_REMAP_INPUTS = ("row_remap_failure", "row_remap_pending", "remapped_rows_uncorrectable_total")
_RETIRED_INPUTS = ("retired_pages_sbe_total", "retired_pages_dbe_total")

CHECKS = (
    check(
        "ecc_uncorrectable",
        "Uncorrected memory errors",
        Level("ecc_dbe_volatile_total", {"crit": 1}, "uncorrected errors since the driver was loaded"),
        step("ecc_dbe_aggregate_total", "crit", "new uncorrected errors", DAY, lifetime=True),
        remedy="Uncorrected memory errors may have spoiled results: drain, reset the GPU, then check row remapping.",
        source="DCGM's memory watch",
    ),
    check(
        "memory_unrepairable",
        "Memory cannot be repaired",
        Level("memory_unrepairable", {"crit": 1}, "while the board reports memory that it cannot repair", number=""),
        Level("ecc_sram_threshold_exceeded", {"crit": 1}, "while SRAM errors are above their limit", number=""),
        remedy="The GPU reports memory that it cannot repair: take the GPU out and open a replacement case.",
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
        Level("row_remap_failure", {"crit": 1}, "while the board reports a row that could not be replaced", number=""),
        remedy="Row repair failed (spares used up or write failed): run field diagnostics and replace the GPU.",
        source="NVIDIA's memory error management",
        unless=_RETIRED_INPUTS,
    ),
    check(
        "row_remap_pending",
        "A memory repair waits for a reset",
        Level("row_remap_pending", {"warn": 1}, "while a row remapping waits for a reset", number=""),
        Level("retired_pages_pending", {"warn": 1}, "while a page retirement waits for a reset", number=""),
        remedy=f"A memory repair waits for a reset: {RESET_LATER}.",
        source="NVIDIA's memory error management",
    ),
    check(
        "row_remap_growth",
        "Memory rows were replaced",
        step("remapped_rows_uncorrectable_total", "warn", "rows replaced for uncorrected errors", DAY, lifetime=True),
        Level(
            "remapped_rows_uncorrectable", {"crit": 512}, "replaced rows in all", ("remapped_rows_uncorrectable_total",)
        ),
        Level("remap_banks_no_spares", {"warn": 1}, "while a bank has no spare row", number=""),
        note="fewer rows that were replaced before are ok: the memory is repaired",
        remedy="New rows were replaced: fine once, but a growing number or a bank without spares means replacement "
        "soon.",
        source="NVIDIA's memory error management: 8 spare rows per bank, 512 in all",
        unless=_RETIRED_INPUTS,
    ),
    check(
        "retired_pages",
        "Many retired memory pages",
        Level("retired_pages", {"warn": 48, "crit": 63}, "retired pages", _RETIRED_INPUTS, by=total),
        step(
            "retired_pages_dbe_total",
            "crit",
            "pages retired for uncorrected errors after the 15th",
            7 * DAY,
            lifetime=True,
            when=(When("retired_pages_dbe_total", gt, 15),),
        ),
        remedy="Many memory pages are retired on this older GPU: plan its replacement.",
        source="DCGM's memory watch, NVIDIA's page retirement (64 at most)",
        unless=_REMAP_INPUTS,
    ),
)
