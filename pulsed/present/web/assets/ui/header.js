// The bar at the top: views, filter, state of the connection, pause, theme and help.

import { setting } from "../core/settings.js";
import { FILTER_NAMES, FilterError, parseFilter, selected } from "../text/filter.js";
import { clock, span } from "../text/format.js";
import { healthOf, worstOf } from "../text/totals.js";
import { h, setAttribute, setText } from "./dom.js";
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
    this.element = document.getElementById("header"); // its first parts are in the HTML, so that they do not move
    const part = (selector) => this.element.querySelector(selector);
    [this.node, this.input, this.problem, this.live] = [".node", "#filter", "#filter-problem", ".live"].map(part);
    this.links = [...part("nav").children].map((link, at) => [views[at][0], link]);
    const jump = h("button", { type: "button", class: "plain", "aria-label": "Jump to a GPU, node, job, pod or view", title: "Ctrl-K", onclick: () => context.jump() }, "⌕");
    this.demo = h("span", { class: "badge", title: "Simulated GPUs, which do not exist" }, "DEMO");
    this.chip = new HealthChip();
    this.pause = h("button", { type: "button", title: "p", onclick: () => fleet.pause(!fleet.isPaused) }, "Pause");
    this.steps = [
      h("button", { type: "button", "aria-label": "One sample back", title: "[", onclick: () => fleet.step(-1) }, "◂"),
      h("button", { type: "button", "aria-label": "One sample forward", title: "]", onclick: () => fleet.step(1) }, "▸"),
    ];
    this.theme = h("button", { type: "button", class: "plain", onclick: () => this.drawTheme(nextTheme()) });
    const help = h("button", { type: "button", class: "plain", "aria-label": "Help: keys and legend", title: "?", onclick: () => context.help() }, "?");
    this.health = h("a", { class: "chip-link", href: "#/" }, this.chip.element);
    part(".tools").append(this.demo, this.health, ...this.steps, this.pause, jump, this.theme, help);
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => router.set({ q: this.input.value.trim() }), FILTER_MS);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.openOnly();
      if (event.key === "Enter" || event.key === "Escape") this.input.blur();
    });
    connection.addEventListener("state", () => this.draw());
    this.drawTheme(setting("theme", "auto"));
    setInterval(() => this.drawAge(), 1000);
  }

  /** Opens the GPU that the filter selects, if it is the only one. */
  openOnly() {
    const { fleet, router } = this.context;
    clearTimeout(this.timer);
    router.set({ q: this.input.value.trim() });
    const positions = selected(this.context);
    if (router.get("q") && positions.length === 1) router.open("gpu", fleet.keys[positions[0]]);
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
    if (router.view !== this.view) this.links.find(([name]) => name === router.view)?.[1].scrollIntoView({ block: "nearest", inline: "nearest" });
    this.view = router.view;
    this.drawFilter();
    document.body.classList.toggle("filtered", router.get("q") !== "");
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
    setText(this.problem, problem && `${problem}. Shown as before.`);
    this.problem.hidden = !problem;
    setAttribute(this.input, "aria-invalid", problem ? "true" : null);
    setAttribute(this.input, "title", problem || `Fields: ${FILTER_NAMES.join(", ")}`);
  }

  drawHealth() {
    const { fleet } = this.context;
    if (!fleet.isLoaded) return;
    const { counts, okText } = healthOf(fleet, fleet.all);
    const worst = worstOf(counts);
    const count = counts[worst] ?? 0;
    this.chip.draw(worst, worst === "ok" ? okText : `${count} ${worst}`);
    this.health.href = this.context.router.filtered(worst === "ok" ? "" : `health=${worst}`);
    const isLost = this.context.connection.isDown;
    document.body.classList.toggle("lost", isLost);
    drawFavicon(worst, count, fleet.node, isLost);
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
