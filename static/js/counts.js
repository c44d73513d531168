// How many characters an entry has and how many are left, counted as the server counts: Unicode code points of the
// normalised text. (The form turns tabs into spaces, as the server does for forms.)
import { onContent } from "./content.js";

const BREAKS = /\r\n|[\r\u0085\u2028\u2029]/gu;
const OUTER = /^\p{White_Space}+|\p{White_Space}+$/gu;

export const count = (text) => [...text.replace(BREAKS, "\n").replace(/\t/gu, " ").normalize("NFC").replace(OUTER, "")].length;

const written = new Intl.NumberFormat("en-US");

function tell(field) {
  const chars = count(field.value);
  const left = Number(field.dataset.room) - chars;
  const place = field.form.querySelector("[data-count]");
  const words = `${written.format(chars)} ${chars === 1 ? "character" : "characters"} · `;
  place.textContent = words + (left < 0 ? `${written.format(-left)} too many` : `${written.format(left)} left on this page`);
  place.classList.toggle("is-over", left < 0);
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-room]")) tell(event.target);
});

onContent(() => {
  for (const field of document.querySelectorAll("[data-room]:not([data-counted])")) {
    field.dataset.counted = "";
    tell(field);
  }
});
