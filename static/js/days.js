// A line with the date where a new day of the reader's begins in the conversation.
import { write } from "./times.js";

const log = document.getElementById("log");

function lay() {
  let last = null;
  for (const question of log.querySelectorAll(".question[data-at]")) {
    const at = new Date(question.dataset.at);
    const day = at.toDateString();
    const line = question.previousElementSibling?.matches(".day") ? question.previousElementSibling : null;
    if (day === last) line?.remove();
    else if (!line) question.before(lineFor(at));
    last = day;
  }
}

function lineFor(at) {
  const line = document.createElement("p");
  const time = document.createElement("time");
  line.className = "day";
  time.dateTime = at.toISOString();
  time.textContent = write(at, "day");
  line.append(time);
  return line;
}

if (log) {
  lay();
  new MutationObserver(lay).observe(log, { childList: true });
}
