// The page of a model: its versions, and a form to ask one of them.

import { ask, clearProblems, element, fill, run, sendJson, show } from "./api.js";

const SHOWN_MAX = 64;
const VALUES_MAX = 20_000_000;
const FIGURES_MS = 5000;
const place = document.getElementById("model");
const path = `/models/${encodeURIComponent(place.dataset.name)}`;

async function load() {
  await fill(place, `/studio/parts${path}${location.search}`);
  for (const button of place.querySelectorAll(".promote")) button.addEventListener("click", () => promote(button));
  place.querySelector("#alias-form").addEventListener("submit", setAlias);
  for (const form of place.querySelectorAll(".infer")) wire(form);
  for (const button of place.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
    });
  }
  await showFigures();
}

// What the version was asked. If it cannot be read, the page stays as it is, and the next time may go well.
async function showFigures() {
  const figures = place.querySelector("#figures");
  if (!figures || document.hidden) return;
  await fill(figures, figures.dataset.path).catch(() => {});
}

async function watchFigures() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, FIGURES_MS));
    await showFigures();
  }
}

async function promote(button) {
  const present = button.dataset.default;
  const headers = present ? { "If-Match": `"${present}"` } : { "If-None-Match": "*" };
  await run(async () => {
    await sendJson(`${path}/promote`, "POST", { version: Number(button.dataset.version) }, headers);
    await load();
  });
}

async function setAlias(event) {
  event.preventDefault();
  const alias = place.querySelector("#alias").value.trim();
  const version = Number(place.querySelector("#alias-version").value);
  const row = [...place.querySelectorAll("[data-alias]")].find((one) => one.dataset.alias === alias);
  const headers = row ? { "If-Match": row.dataset.etag } : { "If-None-Match": "*" };
  await run(async () => {
    await sendJson(`${path}/aliases/${encodeURIComponent(alias)}`, "PUT", { version }, headers);
    await load();
  });
}

function wire(form) {
  for (const tensor of form.querySelectorAll(".tensor")) {
    const chosen = tensor.querySelector(".values");
    chosen.addEventListener("change", () => {
      const typed = tensor.querySelector(".typed");
      const picture = tensor.querySelector(".picture");
      typed.hidden = chosen.value !== "typed";
      if (picture) picture.hidden = chosen.value !== "picture";
      // A picture has its own size, and the service makes of it what the contract takes.
      for (const said of tensor.querySelectorAll(".shape, .datatype")) said.disabled = chosen.value === "picture";
      const data = tensor.querySelector(".data");
      if (!typed.hidden && !data.value) data.value = JSON.stringify(nest(valuesOf(tensor, "random"), shapeOf(tensor)));
    });
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearProblems();
    const asking = form.querySelector(".asking");
    asking.textContent = "Asking…";
    const began = performance.now();
    try {
      const { body, type, query } = callOf(form);
      const headers = { "Content-Type": type };
      const response = await ask(form.dataset.path + query, { method: "POST", body, headers });
      const answer = JSON.parse(await response.text(), keepDigits);
      asking.textContent = `answered in ${Math.round(performance.now() - began)} ms`;
      form.querySelector(".answer").replaceChildren(...shownAnswer(answer));
    } catch (error) {
      asking.textContent = "";
      form.querySelector(".answer").replaceChildren();
      show(error);
    }
    await showFigures();
  });
}

// A number of JavaScript has 53 bits: an integer that needs more is shown as it was written.
function keepDigits(key, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
  return isRounded ? context.source : value;
}

// What is sent. Beside a picture, which is the one input, the seed stands in the query.
function callOf(form) {
  const seed = form.querySelector(".seed")?.value.trim();
  const chosen = [...form.querySelectorAll(".tensor")].find((one) => one.querySelector(".values").value === "picture");
  if (!chosen) return { body: bodyOf(form, seed), type: "application/json", query: "" };
  const [picture] = chosen.querySelector(".file").files;
  if (!picture) throw new Error("Choose a picture, which is a PNG or JPEG file.");
  return { body: picture, type: picture.type, query: seed ? `&seed=${encodeURIComponent(seed)}` : "" };
}

// The body as text: what was typed is sent as it was typed.
function bodyOf(form, seed) {
  const inputs = [...form.querySelectorAll(".tensor")].map((tensor) => {
    const kind = tensor.querySelector(".values").value;
    const typed = tensor.querySelector(".data").value;
    if (kind === "typed") JSON.parse(typed);
    const data = kind === "typed" ? typed : JSON.stringify(valuesOf(tensor, kind));
    const described = { name: tensor.dataset.name, datatype: tensor.querySelector(".datatype").value };
    return `${JSON.stringify({ ...described, shape: shapeOf(tensor) }).slice(0, -1)},"data":${data}}`;
  });
  return `{"inputs":[${inputs.join()}]${seed ? `,"parameters":${JSON.stringify({ seed: Number(seed) })}` : ""}}`;
}

function shapeOf(tensor) {
  return tensor.querySelector(".shape").value.split(/[\s,x×]+/).filter(Boolean).map(Number);
}

function valuesOf(tensor, kind) {
  const count = shapeOf(tensor).reduce((product, size) => product * size, 1);
  if (!(count <= VALUES_MAX)) throw new Error("So many values do not fit into a page: ask from a program.");
  return Array.from({ length: count }, () => valueOf(tensor, kind));
}

function valueOf(tensor, kind) {
  const datatype = tensor.querySelector(".datatype").value;
  if (datatype === "BOOL") return kind === "ones" || (kind === "random" && Math.random() < 0.5);
  const { low, high } = tensor.dataset;
  if (kind !== "random") return kind === "ones" ? 1 : 0;
  if (!datatype.startsWith("INT") && !datatype.startsWith("UINT")) return Number(normal().toFixed(4));
  const from = low === "" ? Math.min(0, high === "" ? 0 : Number(high)) : Number(low);
  const to = Math.min(high === "" ? from + 9 : Number(high), from + 100);
  return from + Math.floor(Math.random() * (to - from + 1));
}

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

function nest(values, shape) {
  if (!shape.length) return values[0];
  return shape.slice(1).reduceRight((flat, size) => {
    const rows = [];
    for (let at = 0; at < flat.length; at += size) rows.push(flat.slice(at, at + size));
    return rows;
  }, values);
}

function shownAnswer(answer) {
  const version = element("p", { class: "note" }, `Answered by version ${answer.model_version}.`);
  const warnings = (answer.warnings || []).map((warning) => element("p", { class: "problem" }, warning));
  const rows = answer.outputs.map((output) => {
    const values = output.data.flat(Infinity);
    const few = values.slice(0, SHOWN_MAX).join(", ");
    const more = values.length > SHOWN_MAX ? `, … (${values.length.toLocaleString("en")} values)` : "";
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, output.name),
      element("td", {}, output.datatype),
      element("td", {}, `[${output.shape.join(", ")}]`),
      element("td", {}, element("code", {}, few + more)),
    );
  });
  const headings = ["Output", "Datatype", "Shape", "Values"].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...headings)), element("tbody", {}, ...rows));
  return [version, ...warnings, table];
}

run(load);
watchFigures();
