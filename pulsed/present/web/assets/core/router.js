// The hash is the state of the view: `#/gpu/3?s=600&q=ru<.1`. Any proxy passes it on, and links keep it.

export class Router extends EventTarget {
  constructor() {
    super();
    this.read();
    addEventListener("hashchange", () => {
      this.read();
      this.dispatchEvent(new Event("change"));
    });
  }

  read() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    const parts = path.split("/").map(decode);
    this.view = parts[0] || "fleet";
    this.parts = parts.slice(1);
    this.rest = this.parts.join("/");
    this.query = new URLSearchParams(query);
  }

  get(name, fallback = "") {
    return this.query.get(name) ?? fallback;
  }

  /** Changes parameters of the view without a new entry in the browser's history. */
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === undefined) this.query.delete(name);
      else this.query.set(name, value);
    }
    const hash = link(this.view, this.parts, this.query);
    if (hash === location.hash) return;
    history.replaceState(null, "", hash);
    this.dispatchEvent(new Event("change"));
  }

  /** Opens another view; the filter goes along. */
  open(view, rest = "") {
    location.hash = this.to(view, rest);
  }

  /** Returns the link to the fleet with a filter. */
  filtered(filter) {
    return link("fleet", "", new URLSearchParams({ q: filter }));
  }

  /** Returns the link to another view with the filter of this one; `rest` is a text, or a list of parts. */
  to(view, rest = "") {
    const kept = new URLSearchParams();
    if (this.query.get("q")) kept.set("q", this.query.get("q"));
    return link(view, rest, kept);
  }
}

function link(view, rest, query) {
  const path = [view === "fleet" ? "" : view, ...[rest].flat().filter(Boolean).map(encodeURIComponent)].join("/");
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
