// A browser opens at most six HTTP/1.1 connections to a server, and a stream holds one for good: a seventh window would
// wait in silence. Windows of this page count their streams over a BroadcastChannel and poll when there are enough.

const MAX_STREAMS = 3;
const ANSWER_MS = 120;

export class StreamSlots {
  constructor() {
    this.hasSlot = false;
    this.channel = "BroadcastChannel" in window ? new BroadcastChannel("pulsed.streams") : null;
    this.id = Math.random();
    this.heard = null;
    this.channel?.addEventListener("message", ({ data }) => {
      if (data.ask && this.hasSlot) this.channel.postMessage({ has: this.id });
      else if (data.has) this.heard?.add(data.has);
    });
  }

  /** Takes a place for a stream; returns false when other windows have them all. */
  async take() {
    if (this.channel && !this.hasSlot) {
      this.heard = new Set();
      this.channel.postMessage({ ask: this.id });
      await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
      const others = this.heard.size;
      this.heard = null;
      if (others >= MAX_STREAMS) return false;
    }
    this.hasSlot = true;
    return true;
  }

  release() {
    this.hasSlot = false;
  }
}
