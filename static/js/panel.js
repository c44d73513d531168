// The memory panel: a form that is open in it is not swept away by news from a stream, and Esc closes it.
import { source } from "./content.js";

document.addEventListener("htmx:before:swap", (event) => {
  if (!source(event).matches?.("[data-stream], [data-running]")) return;
  const panel = document.getElementById("panel");
  if (!panel?.querySelector("[data-open]")) return;
  // its digest goes with the form, so that nothing newer is overwritten; the answer to it brings the panel as it is
  const tasks = event.detail.tasks;
  tasks.splice(0, tasks.length, ...tasks.filter((task) => task.target !== panel));
});

document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.("[data-open]");
  if (event.key !== "Escape" || event.isComposing || !form) return;
  event.preventDefault();
  form.querySelector("[data-return]")?.click();
}, true);
