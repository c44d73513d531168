// Questions that must be answered first: made modal, and closed by asking the server for the page without them.
import { onContent } from "./content.js";

onContent(() => {
  for (const dialog of document.querySelectorAll("dialog[data-modal][open]:not(:modal)")) {
    dialog.removeAttribute("open");
    dialog.showModal();
  }
});

function signedOut() {
  const dialog = document.getElementById("signed-out");
  if (!dialog || dialog.open) return;
  dialog.querySelector("[data-sign-in]").href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  dialog.showModal();
}

document.addEventListener("signed-out", signedOut);
document.addEventListener("htmx:response:error", (event) => {
  if (event.detail.ctx.response.status === 401) signedOut();
});
