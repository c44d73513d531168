// Copy: an answer as the Markdown it was written in, a code block as its text.
import { announce } from "./content.js";

const DONE_MS = 2000;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], .code figcaption button");
  if (!button || button.dataset.was) return;
  const text = button.dataset.copy === "answer"
    ? button.parentElement.querySelector("[data-source]").content.textContent
    : button.closest("figure").querySelector("pre").textContent;
  const copied = await write(text);
  tell(button, copied ? "Copied" : "Not copied");
});

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writeTheOldWay(text);
  }
}

// Where the clipboard is closed to script (plain http on another computer).
function writeTheOldWay(text) {
  const field = document.createElement("textarea");
  const held = document.activeElement;
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  held?.focus();
  return copied;
}

function tell(button, word) {
  const label = button.querySelector("span") ?? button.lastChild;
  button.dataset.was = label.textContent;
  label.textContent = word;
  button.classList.toggle("is-done", word === "Copied");
  announce(word);
  setTimeout(() => {
    label.textContent = button.dataset.was;
    button.classList.remove("is-done");
    delete button.dataset.was;
  }, DONE_MS);
}
