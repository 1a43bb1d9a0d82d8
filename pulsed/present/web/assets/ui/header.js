// The bar at the top: views, filter, state of the connection, pause, theme and help.

import { setting } from "../core/settings.js";
import { FILTER_NAMES, FilterError, parseFilter } from "../text/filter.js";
import { clock, span } from "../text/format.js";
import { healthOf, worstOf } from "../text/totals.js";
import { h, setAttribute, setText, svg } from "./dom.js";
import { drawFavicon } from "./favicon.js";
import { HealthChip } from "./marks.js";
import { nextTheme } from "./palette.js";

const STATES = {
  connecting: "connecting", live: "live", polling: "polling", offline: "no connection", signin: "sign in", hidden: "hidden",
};
const FILTER_MS = 150;

export class Header {
  constructor(context, views) {
    this.context = context;
    const { router, fleet, connection } = context;
    this.node = h("span", { class: "node" });
    this.links = views.map(([name, title]) => [name, h("a", { href: "#/" }, title)]);
    this.input = h("input", {
      type: "search", id: "filter", placeholder: "Filter, e.g. ru<.1 & class!=idle", "aria-label": "Filter GPUs",
      autocomplete: "off", spellcheck: "false", "aria-describedby": "filter-problem", title: `Fields: ${FILTER_NAMES.join(", ")}`,
    });
    this.problem = h("span", { id: "filter-problem", class: "visually-hidden", role: "alert" });
    this.live = h("span", { class: "live" });
    this.demo = h("span", { class: "badge", title: "Simulated GPUs, which do not exist" }, "DEMO");
    this.chip = new HealthChip();
    this.pause = h("button", { type: "button", title: "p", onclick: () => fleet.pause(!fleet.isPaused) }, "Pause");
    this.steps = [
      h("button", { type: "button", "aria-label": "One sample back", title: "[", onclick: () => fleet.step(-1) }, "◂"),
      h("button", { type: "button", "aria-label": "One sample forward", title: "]", onclick: () => fleet.step(1) }, "▸"),
    ];
    this.theme = h("button", { type: "button", class: "plain", onclick: () => this.drawTheme(nextTheme()) });
    const help = h("button", { type: "button", class: "plain", "aria-label": "Help: keys and legend", title: "?", onclick: () => context.help() }, "?");
    this.element = document.getElementById("header");
    this.element.append(
      h("a", { class: "brand", href: "#/" }, logo(), h("span", {}, "pulsed"), this.node),
      h("nav", { "aria-label": "Views" }, this.links.map(([, link]) => link)),
      h("span", { class: "spring" }),
      h("span", { class: "filter" }, this.input, this.problem),
      h("div", { class: "tools" }, this.live, this.demo, this.chip.element, ...this.steps, this.pause, this.theme, help),
    );
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => router.set({ q: this.input.value.trim() }), FILTER_MS);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") this.input.blur();
    });
    connection.addEventListener("state", () => this.draw());
    this.drawTheme(setting("theme", "auto"));
    setInterval(() => this.drawAge(), 1000);
  }

  drawTheme(theme) {
    setText(this.theme, { auto: "◐", light: "☀", dark: "☾" }[theme]);
    setAttribute(this.theme, "aria-label", `Theme: ${theme}`);
    setAttribute(this.theme, "title", `Theme: ${theme}`);
  }

  /** Writes all but the age, which has its own clock. */
  draw() {
    const { router, fleet } = this.context;
    setText(this.node, fleet.node);
    this.links.forEach(([name, link]) => {
      setAttribute(link, "href", router.to(name));
      setAttribute(link, "aria-current", router.view === name ? "page" : null);
    });
    this.drawFilter();
    this.demo.hidden = !fleet.demo;
    setText(this.pause, fleet.isPaused ? "Go on" : "Pause");
    setAttribute(this.pause, "aria-pressed", String(fleet.isPaused));
    for (const step of this.steps) step.hidden = !fleet.isPaused;
    this.drawHealth();
    this.drawAge();
  }

  drawFilter() {
    const text = this.context.router.get("q");
    if (document.activeElement !== this.input && this.input.value !== text) this.input.value = text;
    let problem = "";
    try {
      parseFilter(text);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      problem = error.message;
    }
    setText(this.problem, problem);
    setAttribute(this.input, "aria-invalid", problem ? "true" : null);
    setAttribute(this.input, "title", problem || `Fields: ${FILTER_NAMES.join(", ")}`);
  }

  drawHealth() {
    const { fleet } = this.context;
    if (!fleet.isLoaded) return;
    const health = healthOf(fleet, fleet.all);
    const worst = worstOf(health);
    const count = health[worst] ?? 0;
    this.chip.draw(worst, worst === "ok" ? "ok" : `${count} ${worst}`);
    drawFavicon(worst, count, fleet.node);
  }

  drawAge() {
    const { fleet, connection } = this.context;
    const state = fleet.isPaused ? "paused" : connection.state;
    setAttribute(this.live, "data-state", state);
    if (fleet.isPaused) return setText(this.live, `paused at ${clock(fleet.frame.time)}`);
    const age = fleet.isLoaded ? span((performance.now() - fleet.arrived) / 1000) : "";
    setText(this.live, `${STATES[state]} ${age}`.trim());
    setAttribute(this.live, "title", `Age of the newest data: ${age}`);
  }
}

function logo() {
  return svg(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true" },
    svg("rect", { width: 32, height: 32, rx: 7, fill: "#0D1117" }),
    svg("path", { d: "M4 18h6l3-9 5 15 4-10 2 4h4", fill: "none", stroke: "#2FE6A0", "stroke-width": 3, "stroke-linejoin": "round" }),
  );
}
