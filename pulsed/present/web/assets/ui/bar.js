// A bar for a ratio: solid up to what is known, hatched up to what missing inputs leave open, all hatched without a
// reading. A measured 0 is a tick at the origin. The ghost mark is what nvidia-smi shows.

import { MISSING, percent, percentRange } from "../text/format.js";
import { h, setAttribute, setProperty } from "./dom.js";

export class Bar {
  constructor({ label, isSmall = false, isHidden = false }) {
    this.label = label;
    this.isHidden = isHidden;
    const parts = (this.parts = ["known", "open", "ghost-mark"].map((name) => h("i", { class: name })));
    this.element = h("span", { class: isSmall ? "bar small" : "bar", ...(isHidden ? { "aria-hidden": "true" } : { role: "img", "aria-label": `${label}: no reading` }) }, parts);
  }

  /** Draws a ratio with bounds; null is a missing value. */
  draw({ ratio, lower = ratio, upper = ratio, ghost = null, isStale = false, bottleneck = null }) {
    const { element } = this;
    const isMissing = lower === null || (ratio === null && upper - lower > 0.999);
    setAttribute(element, "data-state", isStale ? "stale" : isMissing ? "missing" : "known");
    setAttribute(element, "data-bottleneck", bottleneck);
    setAttribute(element, "data-open", !isMissing && upper !== null && upper - lower > 0.005);
    setAttribute(element, "data-ghost", ghost !== null);
    const [known, open, mark] = this.parts; // positions on the parts themselves: variables would restyle all of them
    setProperty(known, "width", width(lower));
    setProperty(open, "left", width(lower));
    setProperty(open, "width", width(upper - lower));
    setProperty(mark, "left", width(ghost));
    if (!this.isHidden) {
      const value = isStale ? "stale" : isMissing ? "no reading" : percentRange(ratio, lower, upper);
      const smi = ghost === null ? "" : `; nvidia-smi ${percent(ghost)}`;
      setAttribute(element, "aria-label", `${this.label}: ${value === MISSING ? "no reading" : value}${smi}`);
    }
  }
}

const width = (ratio) => (ratio === null ? "0%" : `${(100 * Math.min(1, Math.max(0, ratio))).toFixed(1)}%`);
