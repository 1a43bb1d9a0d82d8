// The control for the window of time: a list of windows, and the same time in Grafana, which keeps more.

import { getJson } from "../core/api.js";
import { chosenWindow, longestWindow, windowsUpTo } from "../core/windows.js";
import { windowText } from "../text/format.js";
import { h, setAttribute } from "./dom.js";

let grafana = null;

/** Returns the address of Grafana in the configuration, if it is one of the web. */
function grafanaAddress() {
  grafana ??= getJson("config").then(({ publish }) => (/^https?:\/\//.test(publish?.grafana_url ?? "") ? publish.grafana_url : null), () => null);
  return grafana;
}

export class WindowSelect {
  /** @param gpu returns the node and index of the GPU that is shown; null: several */
  constructor(context, gpu = () => null) {
    Object.assign(this, { context, gpu, longest: null });
    this.select = h("select", { onchange: () => context.router.set({ s: this.select.value }) });
    this.link = h("a", { hidden: true, rel: "noreferrer" }, "Open in Grafana");
    this.element = h("span", { class: "window" }, h("label", {}, "Window ", this.select), this.link);
  }

  /** Returns the chosen window; null until the daemon has told what it keeps. */
  get seconds() {
    return this.longest === null ? null : chosenWindow(this.context.router, this.longest);
  }

  /** Learns what the daemon keeps, and shows the choice. */
  async update() {
    const { fleet } = this.context;
    if (!fleet.size) return;
    const [longest, address] = await Promise.all([longestWindow(fleet), grafanaAddress()]);
    if (longest !== this.longest) {
      this.longest = longest;
      this.select.replaceChildren(...windowsUpTo(longest).map((seconds) => h("option", { value: seconds }, windowText(seconds))));
    }
    this.select.value = String(this.seconds);
    this.link.hidden = !address;
    if (address) setAttribute(this.link, "href", grafanaLink(address, this.seconds, this.gpu()));
  }
}

export function grafanaLink(address, seconds, gpu) {
  const url = new URL(`${address.replace(/\/+$/, "")}/d/${gpu ? "pulsed-gpu" : "pulsed-fleet"}`);
  url.searchParams.set("from", `now-${Math.round(seconds)}s`);
  url.searchParams.set("to", "now");
  for (const [name, value] of Object.entries(gpu ?? {})) url.searchParams.set(`var-${name}`, value);
  return url.href;
}
