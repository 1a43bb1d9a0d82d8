// Marks of state: the letter of a bottleneck, the chip of a health state.

import { HEALTH_GLYPH, LETTER } from "../text/states.js";
import { words } from "../text/format.js";
import { h, setAttribute, setText } from "./dom.js";

export class BottleneckMark {
  constructor() {
    this.element = h("span", { class: "glyph", "aria-hidden": "true" });
  }

  draw(bottleneck) {
    setText(this.element, LETTER[bottleneck] ?? "?");
    setAttribute(this.element, "data-bottleneck", bottleneck ?? "unknown");
  }
}

export class HealthChip {
  constructor() {
    this.glyph = h("b", { "aria-hidden": "true" });
    this.text = document.createTextNode("");
    this.element = h("span", { class: "chip" }, this.glyph, this.text);
  }

  draw(state, text = words(state)) {
    setText(this.glyph, HEALTH_GLYPH[state] ?? "?");
    this.glyph.hidden = !this.glyph.textContent;
    if (this.text.data !== text) this.text.data = text;
    setAttribute(this.element, "data-health", state);
  }
}

export function healthChip(state, text) {
  const chip = new HealthChip();
  chip.draw(state, text);
  return chip.element;
}
