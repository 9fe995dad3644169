// Source beside graph: a line and the nodes that it made light up together, whichever of them is pointed at.

import { askJson, element, fillLine, run, show } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 200;
const HEIGHT = 44;
const GAP_X = 26;
const GAP_Y = 40;
const LABEL_MAX = 25;
const LINES_MAX = 20_000;
const OUTPUT = /^\s*%([\w.]+)/;

const AROUND = 300; // so many pixels around the canvas are drawn too

const byId = (id) => document.getElementById(id);
const { id } = byId("graph-page").dataset;
const asked = new URLSearchParams(location.search);
const canvas = byId("canvas");
const opened = new Set(asked.getAll("open"));
const printouts = new Map(); // by path

let view = null; // what the service drew
let boxes = []; // the elements of the boxes, in the order of computation
let edges = []; // those of the edges
let parts = []; // both, with the area of each
let byLine = new Map(); // the numbers of the boxes of a line
let chosen = -1;
let zoom = { x: 0, y: 0, scale: 1 };
let layer = null;
let size = canvas.getBoundingClientRect();

const keyOf = ([file, line]) => `${file}\n${line}`;

function svg(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...inside);
  return made;
}

function query() {
  const chosenArtifact = asked.get("artifact");
  const parameters = new URLSearchParams({ form: byId("form").value, method: byId("method").value || "forward" });
  if (chosenArtifact) parameters.set("artifact", chosenArtifact);
  for (const path of opened) parameters.append("open", path);
  return parameters;
}

async function start() {
  const request = await askJson(`/trace/${encodeURIComponent(id)}`);
  const artifact = request.artifacts[Math.min(Number(asked.get("artifact") || 0), request.artifacts.length - 1)];
  if (artifact) {
    const { methods } = (await askJson(`/artifacts/${artifact.digest}`)).contract;
    byId("method").replaceChildren(...Object.keys(methods).map((name) => element("option", {}, name)));
    byId("graph-page").dataset.digest = artifact.digest;
    if (methods[asked.get("method")]) byId("method").value = asked.get("method");
  }
  await draw();
}

async function draw(kept = null) {
  canvas.setAttribute("aria-busy", "true");
  view = await askJson(`/studio/parts/graph/${encodeURIComponent(id)}?${query()}`);
  const file = byId("file").value;
  byId("file").replaceChildren(...view.files.map((one) => element("option", {}, one.path)));
  if (view.files.some((one) => one.path === file)) byId("file").value = file;
  paint();
  await showText();
  showOpened();
  showLegend();
  search();
  if (kept === null || !boxes.length) fit();
  else focusOn(Math.max(0, view.boxes.findIndex((box) => box.module.startsWith(kept))));
  canvas.setAttribute("aria-busy", "false");
}

// The path of what lies in no submodule is empty.
const isFolded = (box) => box.opens !== null;
const nameOf = (path) => path || "the model";

const left = (box) => box.x * (WIDTH + GAP_X);
const top = (box) => box.y * (HEIGHT + GAP_Y);
const colour = (hue, light) => `hsl(${hue} 60% ${light}%)`;

function paint() {
  layer = svg("g", {});
  edges = view.edges.map(paintEdge);
  boxes = view.boxes.map(paintBox);
  parts = [
    ...view.edges.map((edge, number) => part(edges[number], edge.route.map(([x, y]) => ({ x, y })))),
    ...view.boxes.map((box, number) => part(boxes[number], [box])),
  ];
  const picture = svg("svg", { role: "group", "aria-label": view.title }, markers(), layer);
  canvas.replaceChildren(picture);
  byLine = new Map();
  view.boxes.forEach((box, number) => {
    for (const place of box.lines) {
      if (!byLine.has(keyOf(place))) byLine.set(keyOf(place), []);
      byLine.get(keyOf(place)).push(number);
    }
  });
  chosen = -1;
}

function markers() {
  const tip = svg("marker", {
    id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9,
    orient: "auto", markerUnits: "userSpaceOnUse",
  });
  tip.append(svg("path", { d: "M0 0L8 4L0 8z", class: "tip" }));
  return svg("defs", {}, tip);
}

// An element, with the area that it takes from one place of the grid to others.
function part(made, places) {
  const [xs, ys] = [places.map(left), places.map(top)];
  return {
    made, left: Math.min(...xs), right: Math.max(...xs) + WIDTH, top: Math.min(...ys), bottom: Math.max(...ys) + HEIGHT,
  };
}

function paintEdge(edge) {
  const points = edge.route.map(([x, y]) => [x * (WIDTH + GAP_X) + WIDTH / 2, y * (HEIGHT + GAP_Y)]);
  let [x, y] = points[0];
  y += HEIGHT;
  let path = `M${x} ${y}`;
  points.slice(1).forEach(([nextX, nextY], place) => {
    const bend = (y + nextY) / 2;
    path += `C${x} ${bend} ${nextX} ${bend} ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY + HEIGHT];
    if (place < points.length - 2) path += `V${y}`;
  });
  return svg("path", { d: path, class: "edge" }, svg("title", {}, edge.title));
}

function paintBox(box, number) {
  const group = svg("g", {
    class: `box${isFolded(box) ? " folded" : ""}`, id: `box-${number}`, "data-number": number,
    transform: `translate(${left(box)} ${top(box)})`,
  });
  const rect = svg("rect", { width: WIDTH, height: HEIGHT, rx: 7 });
  if (box.hue !== null) {
    rect.style.fill = colour(box.hue, 93);
    rect.style.stroke = colour(box.hue, 45);
  }
  group.append(rect, line(box.label, "label", box.type ? 19 : 27));
  if (box.type) group.append(line(box.type, "type", 35));
  return group;
}

function line(said, kind, y) {
  const isPath = /^[\w.]+$/.test(said);
  let short = said;
  if (said.length > LABEL_MAX) short = isPath ? `…${said.slice(1 - LABEL_MAX)}` : `${said.slice(0, LABEL_MAX - 1)}…`;
  return svg("text", { x: WIDTH / 2, y, class: kind }, short);
}

function place() {
  layer.setAttribute("transform", `translate(${zoom.x} ${zoom.y}) scale(${zoom.scale})`);
  // A browser takes its time with what nobody sees, too: that is no part of the page.
  const [from, to] = [[-zoom.x - AROUND, -zoom.y - AROUND], [size.width - zoom.x + AROUND, size.height - zoom.y + AROUND]];
  const [x, y, right, bottom] = [...from, ...to].map((one) => one / zoom.scale);
  const seen = parts.filter((one) => one.right >= x && one.left <= right && one.bottom >= y && one.top <= bottom);
  if (seen.length !== layer.childElementCount || seen.some((one, number) => one.made !== layer.children[number])) {
    layer.replaceChildren(...seen.map((one) => one.made));
  }
}

new ResizeObserver(([{ contentRect }]) => {
  size = contentRect;
  if (layer) place();
}).observe(canvas);

function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.min(3, Math.max(0.03, zoom.scale * factor));
  zoom = { x: x - ((x - zoom.x) * scale) / zoom.scale, y: y - ((y - zoom.y) * scale) / zoom.scale, scale };
  place();
}

function fit() {
  if (!view.boxes.length) return;
  const width = Math.max(...view.boxes.map(left)) + WIDTH;
  const height = Math.max(...view.boxes.map(top)) + HEIGHT;
  const least = Math.min(1, (canvas.clientWidth - 30) / width, (canvas.clientHeight - 30) / height);
  // A tall graph is not made so small that nothing can be read: its top is shown.
  const scale = Math.max(least, Math.min(0.6, (canvas.clientWidth - 30) / width));
  zoom = { x: (canvas.clientWidth - width * scale) / 2, y: 15, scale };
  place();
}

function focusOn(number) {
  const box = view.boxes[number];
  const scale = Math.max(zoom.scale, 0.7);
  zoom = {
    x: canvas.clientWidth / 2 - (left(box) + WIDTH / 2) * scale,
    y: canvas.clientHeight / 2 - (top(box) + HEIGHT / 2) * scale,
    scale,
  };
  place();
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const area = canvas.getBoundingClientRect();
  if (event.ctrlKey || event.metaKey || event.deltaMode !== 0 || Math.abs(event.deltaY) >= 60) {
    zoomBy(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - area.left, event.clientY - area.top);
  } else {
    zoom = { ...zoom, x: zoom.x - event.deltaX, y: zoom.y - event.deltaY };
    place();
  }
}, { passive: false });

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, from: zoom, moved: false };
});
window.addEventListener("pointermove", (event) => {
  if (!drag || !layer) return;
  const [byX, byY] = [event.clientX - drag.x, event.clientY - drag.y];
  drag.moved ||= Math.abs(byX) + Math.abs(byY) > 4;
  if (!drag.moved) return;
  canvas.classList.add("dragged");
  zoom = { ...drag.from, x: drag.from.x + byX, y: drag.from.y + byY };
  place();
});
window.addEventListener("pointerup", () => {
  canvas.classList.remove("dragged");
  setTimeout(() => (drag = null));
});

async function showText() {
  if (!view) return; // it is shown as soon as the graph is there
  const kind = byId("text-kind").value;
  byId("file").disabled = kind !== "";
  const rows = kind ? await linesOfPrintout(kind) : linesOfFile();
  byId("lines").replaceChildren(element("table", { class: "code", "aria-label": kind || byId("file").value }, ...rows));
}

function linesOfFile() {
  const file = view.files.find((one) => one.path === byId("file").value);
  if (!file) return [element("tr", {}, element("td", { class: "note" }, "No source is at hand."))];
  return file.lines.map(([number, html]) => {
    const code = element("code");
    fillLine(code, html);
    const row = element("tr", {}, element("th", { scope: "row" }, number || "⋯"), element("td", {}, code));
    if (number) mark(row, [file.path, number]);
    return row;
  });
}

async function linesOfPrintout(kind) {
  const parameters = new URLSearchParams({ method: byId("method").value || "forward", format: "json" });
  const path = `/artifacts/${byId("graph-page").dataset.digest}/printouts/${kind}?${parameters}`;
  if (!printouts.has(path)) printouts.set(path, await askJson(path));
  const printout = printouts.get(path);
  const lineOf = new Map();
  for (const node of printout.nodes) {
    if (node.line) for (const name of node.outputs) lineOf.set(name, [node.file, node.line]);
  }
  return printout.text.split("\n").slice(0, LINES_MAX).map((said, number) => {
    const code = element("code", {}, said);
    const row = element("tr", {}, element("th", { scope: "row" }, number + 1), element("td", {}, code));
    const made = lineOf.get(OUTPUT.exec(said)?.[1]);
    if (made) mark(row, made);
    return row;
  });
}

// Link a row to the boxes of a line of Python. A row that made nodes can be reached with the keyboard.
function mark(row, place) {
  row.dataset.line = keyOf(place);
  const made = byLine.get(keyOf(place));
  if (!made) return;
  const [first] = made;
  row.classList.add("made");
  const hue = view.boxes[first].hue;
  row.querySelector("th").style.boxShadow = `inset -4px 0 ${hue === null ? "#8c959f" : colour(hue, 60)}`;
  row.tabIndex = 0;
  row.setAttribute("aria-label", `${row.textContent}: ${made.length} box${made.length > 1 ? "es" : ""}`);
}

function rowsOf(key) {
  return [...byId("lines").querySelectorAll("tr")].filter((row) => row.dataset.line === key);
}

function light(numbers, keys) {
  for (const lit of byId("lines").querySelectorAll(".lit")) lit.classList.remove("lit");
  const set = new Set(numbers);
  boxes.forEach((box, number) => box.classList.toggle("lit", set.has(number)));
  edges.forEach((edge, number) => {
    edge.classList.toggle("lit", set.has(view.edges[number].from) || set.has(view.edges[number].to));
  });
  for (const key of keys) for (const row of rowsOf(key)) row.classList.add("lit");
}

function lightBox(number) {
  light([number], view.boxes[number].lines.map(keyOf));
}

function lightAgain() {
  if (chosen >= 0) lightBox(chosen);
  else light([], []);
}

function choose(number, { isSeen = false } = {}) {
  for (const one of boxes) one.classList.remove("chosen");
  chosen = number;
  boxes[number].classList.add("chosen");
  if (!isSeen) focusOn(number);
  const [first] = view.boxes[number].lines;
  if (first && !byId("text-kind").value && byId("file").value !== first[0] &&
      view.files.some((file) => file.path === first[0])) {
    byId("file").value = first[0];
    showText().then(() => afterChoice(number, first));
  } else {
    afterChoice(number, first);
  }
}

function afterChoice(number, first) {
  lightBox(number);
  if (first) rowsOf(keyOf(first))[0]?.scrollIntoView({ block: "center" });
  describe(number);
}

function describe(number) {
  const box = view.boxes[number];
  const title = element("h3", {}, element("code", {}, box.label));
  if (isFolded(box)) {
    const fold = element("button", { type: "button" }, `Open ${nameOf(box.opens)}`);
    fold.addEventListener("click", () => open(box.opens));
    title.append(" ", fold);
  }
  const about = [title];
  if (box.count > 1) about.push(element("p", { class: "note" }, `${box.count} nodes; ${Math.min(box.count, box.nodes.length)} of them:`));
  if (box.note) about.push(element("p", {}, box.note));
  for (const node of box.nodes) about.push(facts(node, box.count > 1));
  byId("node").replaceChildren(...about);
}

function facts(node, isOne) {
  const rows = [];
  const add = (term, value) => value && rows.push(element("dt", {}, term), element("dd", {}, element("code", {}, value)));
  if (isOne) add("Operator", node.operator);
  add("Type", node.types);
  if (node.line) add("Line", `${node.line[0]}:${node.line[1]}`);
  if (!isOne) add("Python", node.source);
  add("Module", node.module);
  for (const [name, value] of Object.entries(node.attributes)) add(name, value);
  if (!isOne) {
    add("Inputs", node.inputs);
    add("Outputs", node.outputs);
  }
  return element("dl", {}, ...rows);
}

async function open(path) {
  opened.add(path);
  await run(() => draw(path));
}

async function close(path) {
  for (const one of [...opened]) if (one === path || one.startsWith(`${path}.`)) opened.delete(one);
  await run(() => draw(path));
}

function showOpened() {
  const buttons = [...opened].map((path) => {
    const button = element("button", { type: "button", class: "chip", "aria-label": `Fold ${nameOf(path)}` }, `${nameOf(path)} ×`);
    button.addEventListener("click", () => close(path));
    return button;
  });
  const folded = view.boxes.filter(isFolded).length;
  const said = `${view.nodes.toLocaleString("en")} nodes in ${view.boxes.length} boxes${folded ? `, ${folded} of them folded: double-click one to open it` : ""}`;
  byId("opened").replaceChildren(element("span", { class: "note" }, `${said} `), ...buttons);
  const address = new URL(location.href);
  address.search = query();
  history.replaceState(null, "", address);
}

function showLegend() {
  const modules = new Map();
  for (const box of view.boxes) {
    if (box.hue !== null) modules.set(box.module.split(".")[0], box.hue);
  }
  byId("legend").replaceChildren(
    ...[...modules].slice(0, 24).map(([name, hue]) => {
      const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colour(hue, 80);
      swatch.style.borderColor = colour(hue, 45);
      return element("li", {}, swatch, name);
    }),
  );
}

let matches = [];
function search() {
  const wanted = byId("search").value.trim().toLowerCase();
  matches = [];
  view.boxes.forEach((box, number) => {
    const said = [box.label, box.type, box.module, ...box.nodes.flatMap((node) => [node.operator, node.types, node.source])];
    const is = wanted !== "" && said.some((one) => one.toLowerCase().includes(wanted));
    boxes[number].classList.toggle("found", is);
    if (is) matches.push(number);
  });
  canvas.classList.toggle("searching", wanted !== "");
  byId("found").textContent = wanted === "" ? "" : `${matches.length} found`;
}

byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !matches.length) return;
  event.preventDefault();
  choose(matches.find((number) => number > chosen) ?? matches[0]);
});

const boxOf = (event) => {
  const group = event.target.closest?.(".box");
  return group ? Number(group.dataset.number) : -1;
};
canvas.addEventListener("pointerover", (event) => {
  if (boxOf(event) >= 0) lightBox(boxOf(event));
  else lightAgain();
});
canvas.addEventListener("pointerleave", () => layer && lightAgain());
canvas.addEventListener("click", (event) => {
  if (boxOf(event) >= 0 && !drag?.moved) choose(boxOf(event), { isSeen: true });
});
canvas.addEventListener("dblclick", (event) => {
  const box = view?.boxes[boxOf(event)];
  if (box && isFolded(box)) open(box.opens);
});
canvas.addEventListener("keydown", (event) => {
  if (!view?.boxes.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = {
    ArrowDown: () => neighbour("from", "to") ?? chosen + 1,
    ArrowUp: () => neighbour("to", "from") ?? chosen - 1,
    ArrowRight: () => chosen + 1,
    ArrowLeft: () => chosen - 1,
    Home: () => 0,
    End: () => boxes.length - 1,
    Enter: () => Math.max(0, chosen),
  }[event.key];
  if (to) {
    event.preventDefault();
    choose(Math.min(boxes.length - 1, Math.max(0, to())));
  } else if (event.key === "+") zoomBy(1.25);
  else if (event.key === "-") zoomBy(1 / 1.25);
  else if (event.key === "o" && chosen >= 0) {
    const box = view.boxes[chosen];
    const inside = [...opened].find((path) => box.module === path || box.module.startsWith(`${path}.`));
    if (isFolded(box)) open(box.opens);
    else if (inside) close(inside);
  }
});

function neighbour(near, far) {
  return chosen < 0 ? undefined : view.edges.find((edge) => edge[near] === chosen)?.[far];
}

const lines = byId("lines");
const rowOf = (event) => event.target.closest?.("tr[data-line]");
lines.addEventListener("pointerover", (event) => {
  const row = rowOf(event);
  if (row) light(byLine.get(row.dataset.line) || [], [row.dataset.line]);
});
lines.addEventListener("pointerleave", () => layer && lightAgain());
lines.addEventListener("focusin", (event) => {
  const row = rowOf(event);
  if (row) light(byLine.get(row.dataset.line) || [], [row.dataset.line]);
});
function goToBoxes(event) {
  const numbers = byLine.get(rowOf(event)?.dataset.line);
  if (!numbers) return;
  const next = numbers.find((number) => number > chosen) ?? numbers[0];
  choose(next);
  light(numbers, [rowOf(event).dataset.line]);
}
lines.addEventListener("click", goToBoxes);
lines.addEventListener("keydown", (event) => {
  if (event.key === "Enter") goToBoxes(event);
});

byId("file").addEventListener("change", () => run(showText));
byId("text-kind").addEventListener("change", () => run(showText));
for (const control of ["form", "method"]) {
  byId(control).addEventListener("change", () => {
    opened.clear();
    run(() => draw());
  });
}
byId("in").addEventListener("click", () => zoomBy(1.25));
byId("out").addEventListener("click", () => zoomBy(1 / 1.25));
byId("fit").addEventListener("click", fit);
window.addEventListener("unhandledrejection", (event) => show(event.reason));

if (["graph", "inlined", "onnx-trace"].includes(asked.get("form"))) byId("form").value = asked.get("form");
run(start);
