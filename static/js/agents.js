// Another agent is chosen: what is written now goes to that one, and a reload shows its pages again.
document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-agents]");
  if (!form) return;
  for (const field of document.querySelectorAll("#composer [name=agent], #say [name=agent]")) field.value = event.target.value;
  history.replaceState(history.state, "", `${form.action}?agent=${encodeURIComponent(event.target.value)}`);
});
