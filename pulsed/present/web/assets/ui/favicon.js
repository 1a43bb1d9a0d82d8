// Title and icon show the worst health, for tabs in the background.

import { SEVERITY } from "../text/states.js";

const COLOURS = { ok: "#2FE6A0", info: "#409AE1", warn: "#F4C520", hot: "#EB834C", crit: "#F63171", unknown: "#B1B1C9" };
let shown = "";

export function drawFavicon(state, count, node, isLost = false) {
  const isProblem = (SEVERITY[state] ?? -1) > 1;
  document.title = `${isLost ? "✕ " : ""}${isProblem ? `(${count} ${state}) ` : ""}${node ? `${node} – ` : ""}pulsed`;
  if (state === shown) return;
  shown = state;
  const mark = isProblem ? `<circle cx="25" cy="7" r="7" fill="${COLOURS[state]}"/>` : "";
  const picture =
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0D1117"/>' +
    `<path d="M4 18h6l3-9 5 15 4-10 2 4h4" fill="none" stroke="${COLOURS[state] ?? COLOURS.unknown}" stroke-width="3"/>${mark}</svg>`;
  document.querySelector('link[rel="icon"]').href = `data:image/svg+xml,${encodeURIComponent(picture)}`;
}
