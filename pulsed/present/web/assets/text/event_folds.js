// Changes folded by GPU and cause, so that a GPU with trouble is one row.

import { keyOfEvent } from "../core/fleet_state.js";
import { changeText } from "./change_text.js";
import { words } from "./format.js";
import { SEVERITY } from "./states.js";

const GAP_SECONDS = 600; // between two changes of one row
const MAX_NAMES = 4;

/** What a change is about: its check, XID, finding or kind; that several checks are ok again is one cause. */
function causeOf(change) {
  if (change.event === "health") return change.after === "ok" ? "ok" : (change.check ?? "");
  if (change.event === "xid") return String(change.code);
  return change.finding ?? "";
}

/** Returns the changes, the newest first, as rows: [{ id, newest, changes }]. */
export function folded(changes) {
  const rows = [];
  const open = new Map();
  for (const change of changes) {
    const name = `${change.event} ${keyOfEvent(change)} ${causeOf(change)}`;
    const row = open.get(name);
    const time = Date.parse(change.time) / 1000;
    if (row && row.oldest - time <= GAP_SECONDS) {
      row.changes.push(change);
      row.oldest = time;
    } else {
      const fresh = { name, newest: change, changes: [change], oldest: time };
      open.set(name, fresh);
      rows.push(fresh);
    }
  }
  return rows.map((row) => ({ ...row, id: `${row.name} ${row.changes.at(-1).time}` }));
}

/** A row in words: the newest change, and how many there were. */
export function foldText({ newest, changes }) {
  const count = changes.length;
  if (count === 1) return changeText(newest);
  if (newest.event === "health" && newest.after === "ok") {
    const names = [...new Set(changes.map(({ check }) => words(check ?? "health")))];
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    return `${names.length} ${names.length === 1 ? "check" : "checks"} ok again: ${names.slice(0, MAX_NAMES).join(", ")}${more}`;
  }
  return changeText(newest);
}

/** Severity of a change: of health the worse of both states, so that the end of a problem is with its begin. */
export function severityOf(change, state) {
  const states = change.event === "health" ? [change.before, change.after] : [state ?? "info"];
  return Math.max(...states.map((each) => SEVERITY[each] ?? 0));
}
