// Changes as sentences.

import { quantityName, words } from "./format.js";

export const KINDS = { incident: "Incidents", owner: "Owners", workload_class: "Classes" };

/** Kinds of changes that incidents are made of. */
export const INCIDENT_KINDS = ["health", "xid", "finding", "removal"];

const COUNTED = {
  incident: ["incident", "incidents"],
  owner: ["change of owners", "changes of owners"],
  workload_class: ["change of class", "changes of class"],
};

/** A number of changes of a kind, in words. */
export const countText = (kind, count) => `${count} ${COUNTED[kind][count === 1 ? 0 : 1]}`;

/** Health that only becomes known is no news. */
export const isNews = (change) =>
  change.event !== "health" || !(["unknown", "ok"].includes(change.before) && ["unknown", "ok"].includes(change.after));

/** The state that a change leads to, for its mark; null: it has none. */
export function stateOf(change) {
  if (change.event === "health") return change.after;
  if (change.event === "xid") return change.severity ?? change.state ?? "warn";
  if (change.event === "finding") return change.state === "suspected" ? "warn" : "ok";
  return null;
}

export function changeText(change) {
  switch (change.event) {
    case "health":
      return `${change.check ? words(change.check) : "health"}: ${change.before} → ${change.after}${change.message ? `. ${change.message}` : ""}`;
    case "workload_class":
      return `${words(change.before)} → ${words(change.after)}`;
    case "owner":
      return `${change.change === "begin" ? "has" : "no longer has"} owner ${words(change.owner.kind)} ${change.owner.id}`;
    case "finding":
      return `${words(change.finding)} ${change.state === "ok" ? "no longer suspected" : change.state}${change.message ? `. ${change.message}` : ""}`;
    case "xid":
      return `XID ${change.code}${change.description ? `: ${change.description}` : ""}`;
    case "removal":
      return change.message ?? words(change.reason);
    default:
      return quantityName(change.event);
  }
}
