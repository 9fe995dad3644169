// The start page: what was traced lately, and a form to trace something.

import { ask, askJson, clearProblems, element, fill, reveal, run, show } from "./api.js";

const EXAMPLE = `import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        if x.sum() > 0:
            return self.layers(x)
        return -self.layers(-x)
`;
const ENTRY = /^(?:class|def)\s+([A-Za-z_]\w*)/gm;

const EVERY_MS = 3000; // as long as something is queued or runs
const SELDOM_MS = 30_000; // at most, after failures
const TYPING_MS = 250;
const ANNOUNCED_MAX = 3;

const byId = (id) => document.getElementById(id);
const source = byId("source");
const FIRST = "net.py";
let texts = new Map([[FIRST, ""]]); // of the source's files, by their paths
let current = FIRST; // the file in the editor
let packed = null; // the chosen zip or archive, which is sent as it is, in place of the files

function addInput(shape = "", datatype = "FP32") {
  const row = byId("input-row").content.cloneNode(true).firstElementChild;
  row.querySelector(".shape").value = shape;
  row.querySelector(".datatype").value = datatype;
  row.querySelector(".remove").addEventListener("click", () => {
    row.remove();
    byId("add-input").focus();
  });
  byId("inputs").append(row);
  return row;
}

function moduleOf(path) {
  return path.replace(/\.py$/, "").replaceAll("/", ".");
}

// The texts as they are now: what is in the editor belongs to the current file.
function textsNow() {
  texts.set(current, source.value);
  return texts;
}

function suggestEntrypoints() {
  const found = [];
  for (const [path, text] of packed ? [] : textsNow()) {
    if (!isPython(path)) continue;
    for (const match of text.matchAll(ENTRY)) found.push(`${moduleOf(path)}:${match[1]}`);
  }
  byId("entrypoints").replaceChildren(...found.slice(0, 50).map((value) => element("option", { value })));
  const [last] = found.slice(-1);
  if (last && !byId("entrypoint").value) byId("entrypoint").value = last;
  if (last && !byId("model").value) byId("model").value = last.split(":")[1].replaceAll("_", "-").replace(/^-+|-+$/g, "").toLowerCase();
}

async function take(chosen) {
  clearProblems();
  const usable = [...chosen].filter((file) => /\.(py|zip|pth?)$/i.test(file.name));
  if (!usable.length) {
    show(new Error("Choose .py files, one .zip, or an archive of TorchScript (.pt)."));
    return;
  }
  const archive = usable.find((file) => !isPython(file.name));
  if (archive) {
    showSource([], "", archive);
  } else {
    const read = await Promise.all(usable.map(async (file) => [file.name, await file.text()]));
    const before = [...textsNow()].filter(([, text]) => text.trim());
    showSource(packed ? read : [...before, ...read], read[0][0]);
  }
  suggestEntrypoints();
}

// Take these files for the source, and open one of them in the editor.
function showSource(files, opened = "", archive = null) {
  texts = new Map(files.length ? files : [[FIRST, ""]]);
  packed = archive;
  current = texts.has(opened) ? opened : texts.keys().next().value;
  source.value = texts.get(current);
  source.disabled = packed !== null;
  const isArchived = isArchive(packed?.name ?? "");
  byId("entrypoint-field").hidden = isArchived;
  for (const id of ["entrypoint", "weights", "init"]) byId(id).disabled = isArchived;
  showFiles();
}

// One file needs no list. Of several, one at a time is in the editor.
function showFiles() {
  const names = packed ? [packed.name] : [...texts.keys()];
  const isListed = packed || names.length > 1;
  byId("file-list").replaceChildren(...(isListed ? names : []).map(listedFile));
  byId("source-label").textContent = isListed && !packed ? `Source: ${reveal(current)}` : "Source";
}

function listedFile(name) {
  const remove = element("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}` }, "×");
  remove.addEventListener("click", () => {
    const left = packed ? [] : [...textsNow()].filter(([other]) => other !== name);
    showSource(left, current);
  });
  if (packed) return element("li", {}, element("code", {}, name), " ", remove);
  const open = element("button", { type: "button", class: "quiet", "aria-pressed": String(name === current) }, name);
  open.addEventListener("click", () => {
    openFile(name);
    for (const other of byId("file-list").querySelectorAll("[aria-pressed]")) other.ariaPressed = String(other === open);
  });
  return element("li", {}, open, " ", remove);
}

function openFile(name) {
  textsNow();
  current = name;
  source.value = texts.get(name);
  byId("source-label").textContent = `Source: ${reveal(name)}`;
}

const isPython = (name) => /\.py$/i.test(name);
const isArchive = (name) => /\.pth?$/i.test(name);

function numberOf(text, what) {
  if (!text.trim()) return null;
  const number = Number(text);
  if (!Number.isFinite(number)) throw new Error(`${what} is no number: ${text}`);
  return number;
}

function exampleInputs() {
  return [...byId("inputs").children].map((row, place) => {
    const shape = row.querySelector(".shape").value.split(/[\s,x×]+/).filter(Boolean).map(Number);
    if (shape.some((size) => !Number.isInteger(size) || size < 0)) {
      throw new Error(`The shape of input ${place + 1} is numbers with commas between them, as 1, 3, 224, 224.`);
    }
    const datatype = row.querySelector(".datatype").value;
    const random = { seed: place };
    const low = numberOf(row.querySelector(".low").value, "The lowest value");
    const high = numberOf(row.querySelector(".high").value, "The value to stop before");
    if (low !== null || high !== null) {
      random.low = low ?? 0;
      random.high = high ?? random.low + 1;
    } else if (datatype.includes("INT")) {
      random.low = 0;
      random.high = 10;
    }
    return { datatype, shape, random };
  });
}

// The request of which the source is edited: all else is sent as it was.
const wanted = new URLSearchParams(location.search);
const from = wanted.get("from");
let base = null;
let textsBefore = {}; // of its source, by their paths
let filesOf = ""; // the query that has the service take what was uploaded with it

async function edit() {
  const submitted = await askJson(`/studio/parts/spec/${encodeURIComponent(from)}`);
  const files = Object.entries(submitted.texts);
  if (!files.length) throw new Error("No text of its source is known here: choose its files again, and edit them here.");
  base = submitted.spec;
  textsBefore = submitted.texts;
  filesOf = submitted.has_files ? `?files_of=${from}` : "";
  const [module] = base.source.entrypoint.split(":");
  const entry = files.map(([path]) => path).find((path) => moduleOf(path) === module);
  showSource(files, textsBefore[wanted.get("file")] === undefined ? entry : wanted.get("file"));
  byId("entrypoint").value = base.source.entrypoint;
  byId("model").value = base.model;
  byId("submit-title").textContent = "Edit and trace again";
  byId("rest").hidden = true;
  byId("rest").disabled = true;
  byId("as-before").hidden = false;
  byId("example").hidden = true;
}

function editedSpec() {
  if (packed) throw new Error("All else is sent as it was only with .py files: trace the archive from an empty form.");
  const changed = { entrypoint: byId("entrypoint").value.trim(), files: editedFiles() };
  return { ...base, model: byId("model").value.trim(), source: { ...base.source, ...changed } };
}

// All texts; beside a zip, without those in it that were not changed.
function editedFiles() {
  const isText = ([path, text]) => !base.source.file || base.source.files?.[path] !== undefined || text !== textsBefore[path];
  const files = Object.fromEntries([...textsNow()].filter(isText));
  return Object.keys(files).length ? files : undefined;
}

function specOf() {
  if (base) return { spec: editedSpec(), uploads: [] };
  const spec = {
    source: sourceOf(),
    example_inputs: exampleInputs(),
    mode: byId("mode").value,
    check: { budget: byId("budget").value },
    model: byId("model").value.trim(),
  };
  if (byId("init").value.trim() && !byId("init").disabled) {
    const init = JSON.parse(byId("init").value);
    spec.source.init = Array.isArray(init) ? { args: init } : { kwargs: init };
  }
  const uploads = packed ? [[packed.name, packed]] : [];
  const [weights] = isArchive(packed?.name ?? "") ? [] : byId("weights").files;
  if (weights) {
    spec.weights = { file: weights.name };
    uploads.push([weights.name, weights]);
  }
  const samples = [...byId("samples").files];
  if (samples.length) spec.check.samples = samples.map((file) => ({ file: file.name, image: imageReading() }));
  uploads.push(...samples.map((file) => [file.name, file]));
  return { spec, uploads };
}

// How pictures become inputs, written out, so that the served model takes pictures in the same way.
function imageReading() {
  const numbers = (id, what) => {
    const written = byId(id).value.split(/[\s,]+/).filter(Boolean);
    return written.length ? { [id]: written.map((text) => numberOf(text, what)) } : {};
  };
  return { ...numbers("mean", "The mean"), ...numbers("std", "The std") };
}

function sourceOf() {
  if (isArchive(packed?.name ?? "")) return { archive: packed.name };
  const entrypoint = byId("entrypoint").value.trim();
  if (packed) return { file: packed.name, entrypoint };
  return { files: Object.fromEntries(textsNow()), entrypoint };
}

async function submit() {
  const { spec, uploads } = specOf();
  const options = { method: "POST" };
  if (uploads.length) {
    options.body = new FormData();
    options.body.append("request", new Blob([JSON.stringify(spec)], { type: "application/json" }));
    for (const [name, file] of uploads) options.body.append("files", file, name);
  } else {
    options.body = JSON.stringify(spec);
    options.headers = { "Content-Type": "application/json" };
  }
  const { id } = await (await ask(`/trace${filesOf}`, options)).json();
  location.assign(`/studio/trace/${id}${base && id !== from ? `?before=${from}` : ""}`);
}

byId("submit-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearProblems();
  byId("send").disabled = true;
  byId("sending").textContent = "Sending…";
  try {
    await submit();
  } catch (error) {
    show(error instanceof SyntaxError ? new Error(`The arguments are no JSON: ${error.message}`) : error);
    byId("sending").textContent = "";
  }
  byId("send").disabled = false;
});
byId("add-input").addEventListener("click", () => addInput().querySelector(".shape").focus());
byId("files").addEventListener("change", ({ target }) => {
  const chosen = [...target.files];
  target.value = ""; // so that the same file can be chosen again
  take(chosen);
});
byId("example").addEventListener("click", () => {
  showSource([[FIRST, EXAMPLE]]);
  byId("entrypoint").value = "net:Net";
  byId("model").value = "net";
  byId("inputs").replaceChildren();
  addInput("1, 4");
});
source.addEventListener("change", suggestEntrypoints);
source.addEventListener("paste", () => setTimeout(suggestEntrypoints));
const drop = byId("drop");
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
}
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  take(event.dataTransfer.files);
});

// Show the page of requests that the filter asks for, anew as long as one of them has not ended or none could be read.
let cursor = null;
let again = null;
let failures = 0;
let failed = null; // what the page says of the last failure
async function showRequests() {
  clearTimeout(again);
  const filtered = { state: byId("filter-state").value, search: byId("filter-search").value.trim(), cursor };
  const query = new URLSearchParams(Object.entries(filtered).filter(([, value]) => value));
  try {
    if (!(await fill(byId("requests"), `/studio/parts/requests?${query}`))) return;
  } catch (error) {
    clearTimeout(again);
    const needsKey = error.status === 401 || error.status === 403;
    if (!needsKey) again = setTimeout(follow, Math.min(EVERY_MS * 2 ** failures++, SELDOM_MS));
    throw error;
  }
  failures = 0;
  failed?.remove();
  if (byId("requests").querySelector("[data-live]")) again = setTimeout(follow, EVERY_MS);
}

// Nobody asked for this now: it takes no problem from the page, and no link from under the reader's keys.
async function follow() {
  if (document.hidden || byId("requests").contains(document.activeElement)) {
    again = setTimeout(follow, EVERY_MS);
    return;
  }
  const before = shownRows();
  try {
    await showRequests();
    announce([...shownRows()].filter(([address, text]) => before.get(address) !== text).map(([, text]) => text));
  } catch (error) {
    if (!byId("problems").hasChildNodes()) failed = show(error);
  }
}

// What the list says of each request, by the address of its page.
function shownRows() {
  return new Map([...byId("requests").querySelectorAll("li a")].map((link) => [link.href, wordsOf(link)]));
}

const wordsOf = (shown) => shown.textContent.trim().replace(/\s+/g, " ");

// Have read aloud what changed in the list, and not all of the list.
function announce(changes) {
  const more = changes.length > ANNOUNCED_MAX ? [`and ${changes.length - ANNOUNCED_MAX} more`] : [];
  if (changes.length) byId("news").textContent = [...changes.slice(0, ANNOUNCED_MAX), ...more].join("; ");
}

// Show what the reader asked for, and have read aloud how much that is.
async function showWanted() {
  await showRequests();
  const number = shownRows().size;
  announce([number ? `${number} trace request${number === 1 ? "" : "s"}` : wordsOf(byId("requests"))]);
}

function filter(event) {
  event.preventDefault();
  cursor = null;
  clearTimeout(again);
  again = setTimeout(() => run(showWanted), TYPING_MS);
}

byId("requests").addEventListener("click", (event) => {
  if (!event.target.dataset.cursor) return;
  cursor = event.target.dataset.cursor;
  run(showWanted);
});
byId("filter").addEventListener("submit", filter);
byId("filter").addEventListener("input", filter);

addInput();
run(async () => {
  await showRequests();
  await fill(byId("models"), "/studio/parts/models");
  if (from) await edit();
});
