// A row of buttons of which one is chosen.

import { h } from "./dom.js";

export function segmented(label, names, choose) {
  const buttons = names.map((name) => h("button", { type: "button", onclick: () => choose(name) }, name));
  return {
    element: h("div", { class: "segmented", role: "group", "aria-label": label }, buttons),
    select: (name) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(names[i] === name))),
  };
}
