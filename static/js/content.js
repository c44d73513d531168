// Runs a behaviour on what is on the page now, and again after every swap.
export function onContent(behave) {
  behave();
  document.addEventListener("htmx:after:swap", behave);
}

// The element a request of htmx came from.
export const source = (event) => event.detail.ctx?.sourceElement ?? event.target;

// One sentence for screen readers; also when it is the same one as before.
export function announce(words) {
  const place = document.getElementById("announce");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = words; });
}
