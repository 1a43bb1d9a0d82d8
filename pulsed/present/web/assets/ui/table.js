// A table in a box that scrolls, reachable by keyboard.

import { h } from "./dom.js";

/**
 * @param head texts or elements of the columns; those at the positions of `numbers` are aligned to the right
 * @param label name of the box; without one it is no region of its own
 */
export function scrollTable({ caption, head, body, label = null, class_ = null, numbers = () => false, columns = null }) {
  const headers = head.map((each, i) => (each instanceof Element ? each : h("th", { scope: "col", class: numbers(i) ? "number" : null }, each)));
  const table = h("table", { class: class_ }, h("caption", { class: "visually-hidden" }, caption), columns, h("thead", {}, h("tr", {}, headers)), body);
  return h("div", { class: "scroll", ...(label ? { tabindex: "0", role: "region", "aria-label": label } : {}) }, table);
}
