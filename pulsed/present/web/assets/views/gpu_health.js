// The health of a GPU: what is raised, with evidence and remedy; unknown checks are folded, with the inputs they need.

import { loadedCatalog } from "../core/catalog.js";
import { clock, quantityText, quantityWords, span, words } from "../text/format.js";
import { okText } from "../text/states.js";
import { copyable } from "../ui/copy.js";
import { h } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";

/** Evidence that explains nothing to people. */
const INTERNAL = new Set(["time_known", "bursts"]);

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
    const { checks, state, incidents, last_xid: xid } = gpu.health;
    this.chip.replaceChildren(healthChip(state, knownText(gpu.health)));
    const byId = new Map(checks.map((check) => [check.id, check]));
    const now = Date.parse(gpu.time) / 1000;
    const cards = incidents.map(({ cause, consequences }) => [raisedCheck(byId.get(cause), now), followed(consequences.map((id) => byId.get(id)), now)]);
    this.body.replaceChildren(
      ...(cards.length ? cards.flat().filter(Boolean) : [h("p", {}, "No check is raised.")]),
      ...(xid ? [h("p", {}, `Last XID: ${xid.code} ${xid.description ?? ""}${xid.time ? `, ${clock(Date.parse(xid.time) / 1000)}` : ""}`)] : []),
      folded(checks.filter((check) => check.state === "ok"), "ok", (check) => titleOf(check)),
      folded(checks.filter((check) => check.state === "unknown"), "unknown", unknownText),
    );
  }
}

/** The text of a state that is ok; otherwise undefined. */
export const knownText = ({ state, checks }) => (state === "ok" ? okText(checks.filter((check) => check.state !== "unknown").length, checks.length) : undefined);

export function raisedCheck(check, now) {
  const since = check.since ? `since ${clock(Date.parse(check.since) / 1000)}, ${span(now - Date.parse(check.since) / 1000)}` : "";
  const evidence = Object.entries(check.evidence).filter(([name, value]) => value !== null && !INTERNAL.has(name));
  const commands = loadedCatalog()?.checks[check.id]?.commands ?? [];
  return h(
    "article",
    { class: "check", "data-health": check.state },
    h("div", { class: "check-head" }, healthChip(check.state), h("h3", {}, check.message || titleOf(check)), h("small", { class: "muted" }, since)),
    evidence.length ? h("dl", { class: "facts" }, evidence.flatMap(([name, value]) => [h("dt", {}, quantityWords(name)), h("dd", {}, quantityText(name, value))])) : null,
    check.remedy ? h("div", { class: "remedy" }, h("b", {}, "What to do"), copyable(check.remedy, "p")) : null,
    commands.map((command) => copyable(command)),
    h("p", {}, h("a", { href: `docs/health#${check.id}` }, "Runbook")),
  );
}

/** What followed from the cause within a minute. */
function followed(checks, now) {
  if (!checks.length) return null;
  const names = checks.map((check) => check.message || titleOf(check)).join("; ");
  return h("details", { class: "followed" }, h("summary", {}, `${checks.length} ${checks.length > 1 ? "consequences" : "consequence"}: ${names}`), checks.map((check) => raisedCheck(check, now)));
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
