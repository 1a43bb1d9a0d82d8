// The health of a GPU: what is raised, with evidence and remedy; unknown checks are folded, with the inputs they need.

import { loadedCatalog } from "../core/catalog.js";
import { clock, number, span, words } from "../text/format.js";
import { SEVERITY } from "../text/states.js";
import { copyable } from "../ui/copy.js";
import { h } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";

export class HealthPanel {
  constructor() {
    this.chip = h("span");
    this.body = h("div");
    this.element = h("section", { class: "panel" }, h("h2", {}, "Health ", this.chip), this.body);
  }

  draw(gpu) {
    const key = JSON.stringify(gpu.health) + Boolean(loadedCatalog());
    if (key === this.shown) return;
    this.shown = key;
    const { checks, state, last_xid: xid } = gpu.health;
    this.chip.replaceChildren(healthChip(state));
    const raised = checks.filter((check) => SEVERITY[check.state] > 0).sort((a, b) => SEVERITY[b.state] - SEVERITY[a.state]);
    const now = Date.parse(gpu.time) / 1000;
    this.body.replaceChildren(
      ...(raised.length ? raised.map((check) => raisedCheck(check, now)) : [h("p", {}, "No check is raised.")]),
      ...(xid ? [h("p", {}, `Last XID: ${xid.code} ${xid.description ?? ""}${xid.time ? `, ${clock(Date.parse(xid.time) / 1000)}` : ""}`)] : []),
      folded(checks.filter((check) => check.state === "ok"), "ok", (check) => titleOf(check)),
      folded(checks.filter((check) => check.state === "unknown"), "unknown", unknownText),
    );
  }
}

export function raisedCheck(check, now) {
  const since = check.since ? `since ${clock(Date.parse(check.since) / 1000)}, ${span(now - Date.parse(check.since) / 1000)}` : "";
  const evidence = Object.entries(check.evidence).filter(([, value]) => value !== null);
  return h(
    "article",
    { class: "check", "data-health": check.state },
    h("div", { class: "check-head" }, healthChip(check.state), h("h3", {}, check.message || titleOf(check)), h("small", { class: "muted" }, since)),
    evidence.length ? h("dl", { class: "facts" }, evidence.flatMap(([name, value]) => [h("dt", {}, words(name)), h("dd", {}, number(value, 3))])) : null,
    check.remedy ? h("div", { class: "remedy" }, h("b", {}, "What to do"), copyable(check.remedy, "p")) : null,
  );
}

function folded(checks, state, textOf) {
  const list = h("ul", {}, checks.map((check) => h("li", {}, h("b", {}, words(check.id)), `: ${textOf(check)}`)));
  return h("details", { hidden: !checks.length }, h("summary", {}, `${checks.length} ${state}`), list);
}

const titleOf = (check) => loadedCatalog()?.checks[check.id]?.title ?? words(check.id);

function unknownText(check) {
  if (check.message) return check.message;
  const inputs = loadedCatalog()?.checks[check.id]?.inputs ?? [];
  if (!inputs.length) return "its inputs are missing";
  return `needs ${inputs.map(inputText).join(" or ")}`;
}

function inputText(name) {
  const field = loadedCatalog().quantities[name]?.fields[0];
  return field ? `${name} (field ${field.id})` : name;
}
