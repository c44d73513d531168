// Where the keyboard is after something on the page was replaced: never lost, and back where the person was.
import { source } from "./content.js";

let back = [];

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  back = [button.dataset.return, button.id, button.closest(".receipt")?.id].filter(Boolean);
}, true);

document.addEventListener("htmx:after:swap", (event) => {
  if (source(event).matches?.("[data-stream], [data-running]")) return;
  if (document.activeElement && document.activeElement !== document.body) return;
  const place = [...back.map((id) => document.getElementById(id)), document.querySelector("#panel [data-focus-here]"), document.getElementById("panel")]
    .find((element) => element && !element.hidden);
  back = [];
  place?.focus({ preventScroll: place.id === "panel" });
});

// An opened form is written on at its end.
document.addEventListener("focusin", (event) => {
  const field = event.target;
  if (!field.matches("[data-room]") || field.dataset.met !== undefined) return;
  field.dataset.met = "";
  field.setSelectionRange(field.value.length, field.value.length);
});
