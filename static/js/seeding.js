// How much of each page the entries of the seeding form would take, counted as the server counts: one entry a line,
// blank lines and repeated entries ignored, Unicode code points, three for the § line between two entries.
import { announce } from "./content.js";

const BREAKS = /\r\n|[\r\u0085\u2028\u2029]/gu;
const OUTER = /^\p{White_Space}+|\p{White_Space}+$/gu;
const SEPARATOR = 3;
const written = new Intl.NumberFormat("en-US");

function entriesOf(text) {
  const lines = text.replace(BREAKS, "\n").replace(/\t/gu, " ").split("\n");
  return new Set(lines.map((line) => line.normalize("NFC").replace(OUTER, "")).filter(Boolean));
}

export function used(text) {
  const entries = [...entriesOf(text)];
  return entries.reduce((sum, entry) => sum + [...entry].length, SEPARATOR * Math.max(entries.length - 1, 0));
}

function tell(field) {
  const place = field.closest("[data-seed-document]");
  const chars = used(field.value);
  const limit = Number(field.dataset.limit);
  const count = entriesOf(field.value).size;
  const isOver = place.querySelector("output").classList.toggle("is-over", chars > limit);
  place.querySelector("meter").value = Math.min(chars, limit);
  place.querySelector("[data-used]").textContent = written.format(chars);
  place.querySelector("[data-entries]").textContent = `${written.format(count)} ${count === 1 ? "entry" : "entries"}`;
  if (isOver && field.dataset.over === undefined) announce(`${written.format(chars - limit)} characters too many.`);
  if (isOver) field.dataset.over = "";
  else delete field.dataset.over;
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-seed] [data-limit]")) tell(event.target);
});

// What a browser has put back by itself, after Back or a reload.
addEventListener("pageshow", () => document.querySelectorAll("[data-seed] [data-limit]").forEach(tell));
