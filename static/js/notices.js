// Sentences above the composer: those that only script can know to be due, kept as templates on the page.
import { source } from "./content.js";

export function show(name) {
  const words = document.querySelector(`template[data-notice="${name}"]`);
  const place = document.getElementById("notice");
  if (!words || !place) return;
  place.replaceChildren(words.content.cloneNode(true));
  place.dataset.shows = name;
}

export function clear(name) {
  const place = document.getElementById("notice");
  if (!place || (name && place.dataset.shows !== name)) return;
  place.replaceChildren();
  delete place.dataset.shows;
}

window.addEventListener("offline", () => show("offline"));
window.addEventListener("online", () => clear("offline"));

// A new try takes away what was said about the last one. What asks by itself, each second, does not.
document.addEventListener("htmx:before:request", (event) => {
  if (!source(event).matches("[data-running]")) clear();
});

// No response at all. What that means for a message or for stopping one is told by stream.js.
document.addEventListener("htmx:error", (event) => {
  const from = source(event);
  if (event.detail.ctx && !from.matches?.("[data-stream], [data-running], [data-quiet]")) show("failed");
});
