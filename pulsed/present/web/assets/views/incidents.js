// Incidents as rows: what a fault of a GPU brought within a minute, its cause first, as the daemon folds it.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { clock, moment, span, words } from "../text/format.js";
import { copyable } from "../ui/copy.js";
import { h } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";
import { Slot } from "./owner_parts.js";

/** The row of an incident. */
export function incidentRow({ fleet, router }, incident, { hasGpu = true } = {}) {
  const key = keyOfEvent(incident);
  const since = Date.parse(incident.since) / 1000;
  const name = fleet.labelOfGpu(incident);
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "mono", title: `${moment(since)}, ${span(fleet.current.time - since)} ago` }, h("time", { datetime: incident.since }, clock(since))),
    hasGpu ? h("td", { class: "c-gpu" }, fleet.positions.has(key) ? h("a", { href: router.to("gpu", key), "data-row": true }, name) : name) : null,
    h("td", {}, healthChip(incident.state)),
    h("td", { class: "what" }, textOf(incident), consequences(incident.consequences)),
    h("td", { class: "what" }, incident.remedy && !isOver(incident) ? copyable(incident.remedy, "p") : ""),
  );
}

/** Its cause in words, how often it came, and since when it is over. */
function textOf(incident) {
  const { cause, message, times, until } = incident;
  const again = times > 1 ? `, ${times} times` : "";
  const over = !isOver(incident) ? "" : ` (over since ${clock(Date.parse(until) / 1000).slice(0, 5)})`;
  return `${message || words(cause)}${again}${over}`;
}

/** Whether it has ended; an XID that no check keeps has no end. */
const isOver = ({ since, until }) => until !== null && until !== since;

function consequences(list) {
  if (!list.length) return null;
  return h("details", {}, h("summary", {}, `${list.length} ${list.length > 1 ? "consequences" : "consequence"}`), h("ul", {}, list.map(({ id, message }) => h("li", {}, message || words(id)))));
}

export const incidentText = (incident) =>
  `${incident.node} gpu ${incident.gpu} ${incident.uuid ?? ""} ${incident.cause} ${incident.message} ${incident.consequences.map(({ message }) => message).join(" ")}`;

export function incidentTable(context, incidents, { caption, hasGpu = true }) {
  const head = ["Since", ...(hasGpu ? ["GPU"] : []), "State", "What happened", "What to do"];
  return scrollTable({ caption, label: caption, class_: "events", head, body: h("tbody", {}, incidents.map((each) => incidentRow(context, each, { hasGpu }))) });
}

/** What happened to one GPU since the daemon was started; hidden without anything. */
export class IncidentsPanel {
  constructor(context, key) {
    Object.assign(this, { context, key });
    this.slot = new Slot();
    this.element = h("section", { class: "panel", hidden: true }, h("h2", {}, "What happened"), this.slot.element);
  }

  async draw() {
    const { fleet } = this.context;
    const position = fleet.positions.get(this.key);
    if (position === undefined) return;
    try {
      const { incidents } = await getJson("events/incidents", { gpu: fleet.apiName(position), limit: 20 });
      const own = incidents.filter((each) => keyOfEvent(each) === this.key);
      this.element.hidden = !own.length;
      this.slot.show(own, () => incidentTable(this.context, own, { caption: "What happened to this GPU", hasGpu: false }));
    } catch {
      // the panel stays as it is
    }
  }
}
