// Keys for the whole page. They can be turned off in the help, and are off in text fields.

import { setting } from "../core/settings.js";

export const KEYS = [
  ["1..6", "views"], ["/", "filter"], ["Ctrl-K", "jump to a GPU, node, job, pod or view"], ["j k", "next and previous GPU"], ["Enter", "open the GPU"], ["Esc", "back to the fleet"],
  ["v", "tiles, table or map; lines, spread or map of a plot"], ["p", "pause and resume; data still arrives"], ["[ ]", "one sample back and forward"], ["?", "this help"],
];

export const areKeysOn = () => setting("keys", "on") === "on";

export function listenForKeys(context, views) {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      return context.jump();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !areKeysOn()) return;
    if (event.target.closest("input, select, textarea, dialog")) return;
    const action = actionOf(event.key, context, views);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actionOf(key, context, views) {
  const { router, fleet } = context;
  if (/^[1-9]$/.test(key) && views[key - 1]) return () => router.open(views[key - 1][0]);
  return {
    "/": () => document.getElementById("filter").focus(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    Escape: () => router.view !== "fleet" && router.open("fleet"),
    v: () => context.view?.nextKind?.(),
    p: () => fleet.pause(!fleet.isPaused),
    "[": () => fleet.step(-1),
    "]": () => fleet.step(1),
    "?": () => context.help(),
  }[key];
}

/** Moves the focus between the links of tiles and rows. */
function moveRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
