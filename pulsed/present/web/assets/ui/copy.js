// Copies text. Plain http is no secure context: there `navigator.clipboard` is missing, and a selection is copied.

import { h } from "./dom.js";

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "visually-hidden", readonly: true, "aria-hidden": "true" });
    field.value = text;
    const focused = document.activeElement;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return isCopied;
  }
}

/** A text with a button that copies it. */
export const copyable = (text, tag = "code") => h("div", { class: "copyable" }, h(tag, {}, text), copyButton(text));

export function copyButton(text) {
  const button = h("button", { type: "button", "aria-label": `Copy: ${text.slice(0, 60)}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text)) ? "Copied" : "Select and copy";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}
