// A long name that is cut in the middle where the room ends, so that its last part, which differs most often, stays.

import { h } from "./dom.js";

const TAIL = 7; // characters that are never cut
const SHORT = 16; // characters of a name that is not cut

export function longName(text) {
  if (text.length <= SHORT) return text;
  return h("span", { class: "cut", title: text }, h("span", { class: "cut-head" }, text.slice(0, -TAIL)), h("span", {}, text.slice(-TAIL)));
}
