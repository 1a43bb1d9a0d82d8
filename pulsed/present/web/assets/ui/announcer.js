// A polite live region: at most one message per five seconds, the newest ones together.

import { h } from "./dom.js";

const PAUSE_MS = 5000;
const MAX_MESSAGES = 3;

export class Announcer {
  constructor() {
    this.element = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.waiting = [];
    this.timer = 0;
  }

  announce(text) {
    this.waiting.push(text);
    this.timer ||= setTimeout(() => this.flush(), 300);
  }

  flush() {
    const more = this.waiting.length - MAX_MESSAGES;
    this.element.textContent = this.waiting.slice(-MAX_MESSAGES).join(". ") + (more > 0 ? `. ${more} more changes` : "");
    this.waiting = [];
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.waiting.length) this.flush();
    }, PAUSE_MS);
  }
}
