// Times in the reader's own zone. The server writes UTC and says so.
import { onContent } from "./content.js";

const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long" });
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric" });

// Whole days from today to `at`: -1 is yesterday.
export function daysFromNow(at) {
  const midnight = (time) => Date.UTC(time.getFullYear(), time.getMonth(), time.getDate());
  return Math.round((midnight(at) - midnight(new Date())) / 86_400_000);
}

const NAMED = { "-1": "yesterday", 0: "today", 1: "tomorrow" };
const onDate = (at) => (at.getFullYear() === new Date().getFullYear() ? date : dated).format(at);
const capital = (word) => word[0].toUpperCase() + word.slice(1);

const STYLES = {
  clock: (at) => hour.format(at),
  day: (at) => [NAMED[daysFromNow(at)] && capital(NAMED[daysFromNow(at)]), onDate(at)].filter(Boolean).join(", "),
  moment: (at) => `${onDate(at)}, ${hour.format(at)}`,
  until: (at) => `${NAMED[daysFromNow(at)] ?? onDate(at)}, ${hour.format(at)}`,
};

export const write = (at, style) => STYLES[style](at);

onContent(() => {
  for (const time of document.querySelectorAll("time[data-time]:not([data-local])")) {
    time.textContent = write(new Date(time.dateTime), time.dataset.time);
    time.dataset.local = "";
  }
});

const greeting = document.querySelector("[data-greeting]");
if (greeting) {
  const now = new Date().getHours();
  const part = now < 12 ? "morning" : now < 18 ? "afternoon" : "evening";
  greeting.textContent = `Good ${part}${greeting.dataset.greeting ? `, ${greeting.dataset.greeting}` : ""}.`;
}
