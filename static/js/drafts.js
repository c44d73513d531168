// An unsent message outlives a reload and an expired session: kept in this tab, by person and conversation.
const composer = document.querySelector("[data-composer]");
const message = composer?.querySelector("[data-message]");
const PREFIX = "draft:";
const place = (conversation) => `${PREFIX}${composer.dataset.draftScope}:${conversation || "new"}`;
const here = () => place(composer.dataset.conversation);

function keep() {
  try {
    if (message.value) sessionStorage.setItem(here(), message.value);
    else sessionStorage.removeItem(here());
  } catch { /* storage is full or forbidden: the draft lives as long as the page */ }
}

function discardAll() {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith(PREFIX)) sessionStorage.removeItem(name);
}

if (composer) {
  if (!message.value) {
    message.value = sessionStorage.getItem(here()) ?? "";
    message.dispatchEvent(new Event("input", { bubbles: true }));
  }
  message.addEventListener("input", keep);
  composer.addEventListener("draft:moved", () => sessionStorage.removeItem(here()));
}

document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-sign-out]")) discardAll();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-discard-draft]");
  if (!button) return;
  if (message) message.value = "";
  discardAll();
  button.closest("dialog").close();
});
