// The end of the conversation stays in sight while it grows, unless the reader has scrolled up to read.
const scroll = document.getElementById("scroll");
const log = document.getElementById("log");
const latest = document.querySelector("[data-latest]");
const NEAR_PX = 48;

if (scroll && log && latest) {
  let following = true;
  let last = 0;
  const distance = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
  const toEnd = () => {
    if (log.childElementCount) scroll.scrollTop = scroll.scrollHeight;
    last = scroll.scrollTop;
  };
  const settle = () => {
    if (following) toEnd();
    latest.hidden = following || distance() < NEAR_PX;
  };

  // Only going up is leaving: by the time our own scrolling is reported, more may have been written below.
  scroll.addEventListener("scroll", () => {
    const isNear = distance() < NEAR_PX;
    if (isNear) following = true;
    else if (scroll.scrollTop < last - 1) following = false;
    last = scroll.scrollTop;
    latest.hidden = following;
  }, { passive: true });

  const sizes = new ResizeObserver(settle);
  sizes.observe(log);
  sizes.observe(scroll);

  latest.addEventListener("click", () => {
    following = true;
    settle();
    document.querySelector("[data-message]").focus({ preventScroll: true });
  });

  // one's own message is always looked at
  document.addEventListener("htmx:before:request", (event) => {
    if (event.target.matches?.("[data-stream]")) following = true;
  });
}
