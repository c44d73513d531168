// The composer: which of Send and Stop is shown, and the keys: Enter sends, Shift + Enter is a new line, Esc stops.
import { clear, show } from "./notices.js";
import { onContent, source } from "./content.js";

const composer = document.querySelector("[data-composer]");
const message = composer?.querySelector("[data-message]");
const stop = document.getElementById("stop");

// The form whose stream is open in this tab, or nothing. An answer can also be written elsewhere: that can be waited
// for, but only its own tab can stop it.
let sending = null;
// What that form has sent, until the field says something else.
let sent = null;
const isWrittenElsewhere = () => !sending && document.querySelector("[data-running]") !== null;

export function setSending(form) {
  sending = form;
  sent = form && form === message.form ? message.value : null;
  refresh();
}

// A key names one message and the turn it begins; the same key twice is the same message.
export function renewKeys() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  for (const field of document.querySelectorAll('[name="key"]')) field.value = key;
}

function refresh() {
  if (!composer) return;
  const held = document.activeElement;
  const answering = Boolean(sending) || isWrittenElsewhere();
  const isDue = { ready: !answering, answering, stoppable: Boolean(sending) };
  composer.querySelector("[data-send]").hidden = Boolean(sending);
  composer.querySelector("[data-stop]").hidden = !sending;
  for (const words of composer.querySelectorAll("[data-when]")) words.hidden = !isDue[words.dataset.when];
  if (!answering) for (const name of ["writing", "elsewhere"]) clear(name);
  // a button that goes while it has the focus hands it on
  if (held?.hidden && composer.contains(held)) message.focus();
}

if (composer) {
  onContent(refresh);

  // A message sent while an answer is being written would be dropped in silence.
  document.addEventListener("htmx:config:request", (event) => {
    if (!source(event).matches("[data-stream]") || !(sending || isWrittenElsewhere())) return;
    event.preventDefault();
    // sent a second time before the first has left the field, or nothing written at all: nothing is dropped
    if (sending && (message.value === sent || !message.value.trim())) return;
    show(sending ? "writing" : "elsewhere");
  });
  message.addEventListener("input", () => { sent = null; });

  // The second half of a double click on Send meets Stop, which has just taken its place.
  composer.querySelector("[data-stop]").addEventListener("click", (event) => {
    if (event.detail > 1) event.preventDefault();
  });

  message.addEventListener("keydown", (event) => {
    const composing = event.isComposing || event.keyCode === 229;
    if (event.key !== "Enter" || event.shiftKey || composing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (message.value.trim() && !event.repeat) message.form.requestSubmit();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !sending) return;
    if (document.querySelector("dialog[open], :popover-open")) return;
    stop.requestSubmit();
  });

  if (!CSS.supports("field-sizing", "content")) {
    const fit = () => { message.style.blockSize = "auto"; message.style.blockSize = `${message.scrollHeight}px`; };
    message.addEventListener("input", fit);
    fit();
  }
}
