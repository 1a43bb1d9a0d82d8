// Jump: a dialog that finds GPUs, nodes, owners and views by a part of their names.

import { ownerName, ownerPage } from "../text/format.js";
import { h } from "./dom.js";

const MAX = 12;

export class Jump {
  constructor(context, views) {
    Object.assign(this, { context, views });
    this.input = h("input", { type: "search", role: "combobox", "aria-label": "Jump to", "aria-controls": "jump-list", "aria-expanded": "true", "aria-autocomplete": "list", placeholder: "GPU, node, job, pod or view", autocomplete: "off", spellcheck: "false" });
    this.list = h("ul", { id: "jump-list", role: "listbox", "aria-label": "Places" });
    this.element = h("dialog", { class: "jump", "aria-label": "Jump to" }, this.input, this.list);
    this.input.addEventListener("input", () => this.draw());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
    document.body.append(this.element);
  }

  open() {
    if (this.element.open) return;
    this.places = this.allPlaces();
    this.input.value = "";
    this.element.showModal();
    this.draw();
  }

  /** All places as [kind, name, hash]. */
  allPlaces() {
    const { fleet, router } = this.context;
    const views = this.views.map(([name, title]) => ["view", title, router.to(name)]);
    const gpus = fleet.all.map((i) => ["GPU", fleet.labelOf(i), router.to("gpu", fleet.keys[i])]);
    const nodes = [...new Set(fleet.gpus.node)].map((node) => ["node", node, router.filtered(`node="${node.replaceAll('"', "")}"`)]);
    const owners = [...new Set(fleet.owners.flat())].filter(Boolean).map((owner) => ["owner", ownerName(owner), router.to(...ownerPage(owner))]);
    return [...views, ...nodes, ...gpus, ...owners];
  }

  draw() {
    const words = this.input.value.toLowerCase().replaceAll("·", " ").split(/\s+/).filter(Boolean);
    const matching = this.places.filter(([kind, name]) => words.every((word) => `${kind} ${name}`.toLowerCase().includes(word)));
    const whole = new Map(matching.map((place) => [place, wholeWords(place[1], words)]));
    this.found = matching.sort((a, b) => whole.get(b) - whole.get(a)).slice(0, MAX);
    this.at = 0;
    this.list.replaceChildren(...this.found.map(([kind, name, hash], at) => h("li", { role: "option", id: `jump-${at}`, onclick: () => this.go(hash) }, name, " ", h("small", {}, kind))));
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.at)));
    this.input.setAttribute("aria-activedescendant", this.found.length ? `jump-${this.at}` : "");
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && this.found.length) this.go(this.found[this.at][2]);
    if (!step || !this.found.length) return;
    event.preventDefault();
    this.at = (this.at + step + this.found.length) % this.found.length;
    this.mark();
  }

  go(hash) {
    this.element.close();
    location.hash = hash;
  }
}

/** How many of some words are whole parts of a name, such as the index of a GPU. */
function wholeWords(name, words) {
  const parts = new Set(name.toLowerCase().split(/[\s·:/]+/));
  return words.filter((word) => parts.has(word)).length;
}
