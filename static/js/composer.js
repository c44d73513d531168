// The composer: which of Send and Stop is shown, and the keys: Enter sends, Shift + Enter is a new line, Esc stops.
import { show } from "./notices.js";
import { onContent, source } from "./content.js";

const composer = document.querySelector("[data-composer]");
const message = composer?.querySelector("[data-message]");
const stop = document.getElementById("stop");

// The form whose stream is open in this tab, or nothing. An answer can also be written elsewhere: [data-running].
let sending = null;
export const isAnswering = () => Boolean(sending || document.querySelector("[data-running]"));

export function setSending(form) {
  sending = form;
  refresh();
}

// A key names one message and the turn it begins; the same key twice is the same message.
export function renewKeys() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  for (const field of document.querySelectorAll('[name="key"]')) field.value = key;
}

export function submit(form) {
  form.requestSubmit();
}

function refresh() {
  if (!composer) return;
  const answering = isAnswering();
  const held = document.activeElement;
  const running = sending ? null : document.querySelector("[data-running]");
  stop.querySelector("[data-stop-turn]").value = running?.dataset.turn ?? "";
  composer.querySelector("[data-send]").hidden = answering;
  composer.querySelector("[data-stop]").hidden = !answering;
  for (const words of composer.querySelectorAll("[data-when]")) words.hidden = (words.dataset.when === "answering") !== answering;
  // a button that goes while it has the focus hands it on
  if (held?.hidden && composer.contains(held)) message.focus();
}

if (composer) {
  onContent(refresh);

  // A message sent while an answer is being written would be dropped in silence.
  document.addEventListener("htmx:config:request", (event) => {
    if (!source(event).matches("[data-stream]") || !isAnswering()) return;
    event.preventDefault();
    show("writing");
  });

  message.addEventListener("keydown", (event) => {
    const composing = event.isComposing || event.keyCode === 229;
    if (event.key !== "Enter" || event.shiftKey || composing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (message.value.trim()) submit(message.form);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !isAnswering()) return;
    if (document.querySelector("dialog[open], :popover-open")) return;
    submit(stop);
  });

  if (!CSS.supports("field-sizing", "content")) {
    const fit = () => { message.style.blockSize = "auto"; message.style.blockSize = `${message.scrollHeight}px`; };
    message.addEventListener("input", fit);
    fit();
  }
}
