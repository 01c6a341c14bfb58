"use strict";
// The graph answers to a click and to Enter or Space; steps open together; everything is open when printed.
const nodes = [...document.querySelectorAll("g.site")];
const panels = [...document.querySelectorAll(".panel")];
const steps = [...document.querySelectorAll("details.step")];
const openAll = document.getElementById("open-all");

function select(place) {
  nodes.forEach((node, at) => node.setAttribute("aria-pressed", String(at === place)));
  panels.forEach((panel, at) => { panel.hidden = at !== place; });
}

nodes.forEach((node, place) => {
  node.addEventListener("click", () => select(place));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      select(place);
    } else if (event.key === "ArrowRight" || event.key === "ArrowDown") {
      event.preventDefault();
      nodes[(place + 1) % nodes.length].focus();
    } else if (event.key === "ArrowLeft" || event.key === "ArrowUp") {
      event.preventDefault();
      nodes[(place + nodes.length - 1) % nodes.length].focus();
    }
  });
});

if (nodes.length) {
  select(0);
}

if (openAll) {
  openAll.hidden = false;
  openAll.addEventListener("click", () => {
    const open = !steps.every((step) => step.open);
    steps.forEach((step) => { step.open = open; });
    openAll.textContent = open ? "Close all steps" : "Open all steps";
  });
}

function reveal() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const place = panels.indexOf(target || null);
  if (place >= 0) {
    select(place);
  }
}
window.addEventListener("hashchange", reveal);
reveal();

let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
  panels.forEach((panel) => { panel.hidden = false; });
});
window.addEventListener("afterprint", () => {
  closed.forEach((details) => { details.open = false; });
  select(Math.max(0, nodes.findIndex((node) => node.getAttribute("aria-pressed") === "true")));
});
