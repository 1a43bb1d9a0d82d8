// The owners of a GPU as links to their pages.

import { ownerName, ownerPage } from "../text/format.js";
import { ownersText } from "../text/use.js";
import { h } from "../ui/dom.js";

/** Writes the owners of a GPU after some words, if they have changed; returns the text. */
export function drawOwners(element, { fleet, router }, i, before = "") {
  const text = before + ownersText(fleet, i);
  if (element.textContent === text) return text;
  const owners = fleet.owners[i] ?? [];
  const links = owners.flatMap((owner, at) => [at ? ", " : before, h("a", { href: router.to(...ownerPage(owner)) }, ownerName(owner))]);
  element.replaceChildren(...(owners.length ? links : [text]));
  return text;
}
