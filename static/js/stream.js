// The life of one turn in this tab: sent → started → ended, or refused, or lost on the way. Never aborts a stream unless
// stopping it by request failed; what became of a lost one is asked for until somebody knows.
import { renewKeys, setSending } from "./composer.js";
import { clear, show } from "./notices.js";
import { source } from "./content.js";

let turn = null; // {form, text, accepted, ended, stopping, id, conversation}

const message = () => document.querySelector("[data-message]");
const mine = (event) => turn && source(event) === turn.form;
const told = (event) => JSON.parse(event.detail.data);

document.addEventListener("htmx:before:request", (event) => {
  const form = source(event);
  if (!form.matches("[data-stream]")) return;
  turn = { form, text: form.elements.message?.value, accepted: false, ended: false };
  setSending(form);
});

document.addEventListener("htmx:sse:after:connection", (event) => {
  if (turn && event.target === turn.form) turn.accepted = true;
});

document.addEventListener("turn.started", (event) => {
  const { turnId, conversationId, title } = told(event);
  Object.assign(turn, { id: turnId, conversation: conversationId });
  adopt(conversationId, title);
  if (turn.stopping) stopAgain();
  emptyComposer(turn.text);
  if (document.activeElement !== document.body) return;
  const place = matchMedia("(pointer: coarse)").matches ? document.getElementById("scroll") : message();
  place.focus({ preventScroll: true });
});

document.addEventListener("turn.ended", () => { turn.ended = true; });

// Fired once, when the stream is over, however it came to be over.
document.addEventListener("htmx:finally:request", (event) => {
  if (!mine(event)) return;
  const { accepted, ended, id, conversation } = turn;
  const { response, hx } = event.detail.ctx;
  const refused = !accepted && response;
  // the same message was sent before, and the page of its chat comes in place of this one
  if (hx?.redirect) emptyComposer(turn.text);
  turn = null;
  setSending(null);
  // a turn that was not seen to begin keeps its key: the message may have arrived, and must not arrive twice
  if (id || refused) renewKeys();
  if (ended || refused) return;
  if (id) learnTruth(conversation, id);
  else if (accepted) show("unknown");
  else show(navigator.onLine ? "unsent" : "offline");
});

// Stop goes by request, so that the answer's text so far is kept. Only when that fails is the stream cut. One that came
// before the turn is on record finds nothing to stop, and goes again when it is.
for (const failure of ["htmx:error", "htmx:response:error"]) {
  document.addEventListener(failure, (event) => {
    if (source(event).id !== "stop" || !turn) return;
    const isEarly = event.detail.ctx?.response?.status === 404 && !turn.stopping;
    turn.stopping = true;
    if (!isEarly) htmx.trigger(turn.form, "htmx:abort");
    else if (turn.id) stopAgain();
  });
}

// Not within the event that tells of the first request: htmx lets no second one go before that is over.
function stopAgain() {
  setTimeout(() => { if (turn) document.getElementById("stop").requestSubmit(); });
}

// What was sent is on record; what was typed since stays.
function emptyComposer(sent) {
  if (message().value === sent) message().value = "";
  message().dispatchEvent(new Event("input", { bubbles: true }));
}

// The first turn of a new chat gives the page its address.
function adopt(conversation, title) {
  const composer = document.querySelector("[data-composer]");
  if (composer.dataset.conversation) return;
  composer.dispatchEvent(new CustomEvent("draft:moved", { bubbles: true, detail: conversation }));
  composer.dataset.conversation = conversation;
  for (const form of document.querySelectorAll("[data-stream]")) {
    form.setAttribute("hx-post", `/chats/${conversation}/turns`);
    form.setAttribute("action", `/chats/${conversation}/turns`);
  }
  history.replaceState(null, "", `/chats/${conversation}`);
  if (title) document.title = `${title} · Remembrancer`;
}

// The connection was lost in mid-answer. The server knows the end, or is about to.
async function learnTruth(conversation, id) {
  for (let wait = 250; document.getElementById(`turn-${id}`); wait = Math.min(wait * 2, 5000)) {
    try {
      const response = await fetch(`/chats/${conversation}/turns/${id}`, { headers: { "HX-Request": "true" } });
      if (response.ok) {
        const article = document.getElementById(`turn-${id}`);
        await htmx.swap({ text: await response.text(), target: article, swap: "outerMorph", sourceElement: article });
        clear("lost");
        return;
      }
      if (response.status === 401) document.dispatchEvent(new CustomEvent("signed-out"));
      if (response.status < 500) return;
    } catch {
      show("lost");
    }
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
}

// An answer written elsewhere is asked for each second; a refusal will not change, so the asking ends.
document.addEventListener("htmx:response:error", (event) => {
  const article = source(event);
  if (!article.matches("[data-running]") || event.detail.ctx.response.status >= 500) return;
  for (const name of ["hx-get", "hx-trigger", "data-running"]) article.removeAttribute(name);
  htmx.process(article, true);
  setSending(null);
});

// A page that comes back from the browser's memory comes back without its stream.
window.addEventListener("pageshow", (event) => {
  if (event.persisted && document.querySelector("[data-running]")) location.reload();
});
