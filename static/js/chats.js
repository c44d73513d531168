// The chats at the side, grouped by the reader's own days; the server can only group them by UTC.
import { daysFromNow } from "./times.js";

const list = document.getElementById("chats-list");
const month = new Intl.DateTimeFormat("en-GB", { month: "long" });
const monthAndYear = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric" });

function stretch(at) {
  const days = -daysFromNow(at);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Last seven days";
  return (at.getFullYear() === new Date().getFullYear() ? month : monthAndYear).format(at);
}

function group() {
  const groups = new Map();
  for (const chat of list.querySelectorAll("[data-at]")) {
    const label = stretch(new Date(chat.dataset.at));
    groups.set(label, [...(groups.get(label) ?? []), chat]);
  }
  const shown = Array.from(list.querySelectorAll("h3"), (title) => title.textContent);
  const stands = Array.from(list.querySelectorAll("ul"), (ul) => ul.childElementCount);
  const wanted = [...groups.keys()];
  if (wanted.join() === shown.join() && [...groups.values()].every((chats, i) => chats.length === stands[i])) return;
  list.replaceChildren(...wanted.flatMap((label) => {
    const title = document.createElement("h3");
    const ul = document.createElement("ul");
    title.textContent = label;
    ul.setAttribute("role", "list");
    ul.append(...groups.get(label));
    return [title, ul];
  }));
}

if (list?.querySelector("[data-at]")) group();
if (list) new MutationObserver(() => { if (list.querySelector("[data-at]")) group(); }).observe(list, { childList: true, subtree: true });
