// The owners of a GPU as links to their pages.

import { ownerName, ownerPage } from "../text/format.js";
import { ownersText } from "../text/use.js";
import { h } from "../ui/dom.js";
import { longName } from "../ui/long_name.js";

const MAX_LINKS = 2;

/** Links to owners as in `pod:namespace/name/container`, the first ones of many. */
export function ownerLinks({ router }, owners) {
  const links = owners.slice(0, MAX_LINKS).flatMap((owner, at) => [at ? ", " : "", h("a", { href: router.to(...ownerPage(owner)) }, longName(ownerName(owner)))]);
  return owners.length > MAX_LINKS ? [...links, ` and ${owners.length - MAX_LINKS} more`] : links;
}

/** Writes the owners of a GPU after some words, if they have changed; returns the text of all. */
export function drawOwners(element, context, i, before = "") {
  const { fleet } = context;
  const text = before + ownersText(fleet, i);
  if (element.dataset.owners === text) return text;
  element.dataset.owners = text;
  const owners = fleet.owners[i] ?? [];
  element.replaceChildren(...(owners.length ? [before, ...ownerLinks(context, owners)] : [text]));
  return text;
}
