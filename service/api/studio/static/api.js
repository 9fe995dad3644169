// What all pages share: asking the API with the reader's key, and putting its answers on the page.

const KEY = "tracehouse-key";
const LOG_MAX = 200_000;

// The only place where text becomes elements. It is given nothing but the parts that the service has rendered.
const policy = window.trustedTypes?.createPolicy("studio", { createHTML: (html) => html });

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The service answered ${status}`);
    this.status = status;
    this.document = document;
  }
}

export async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "The service cannot be reached", detail: "It does not answer. Is it running?" });
  }
  if (!response.ok) throw new Problem(response.status, await problemOf(response));
  return response;
}

export async function askJson(path, options) {
  return (await ask(path, options)).json();
}

export function sendJson(path, method, body, headers = {}) {
  return ask(path, { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers } });
}

const newest = new WeakMap(); // of each place, what was asked for last

// Put a part that the service rendered into a place on the page, and return true; false if another one was asked for
// meanwhile.
export async function fill(place, path) {
  const asked = {};
  newest.set(place, asked);
  const html = await (await ask(path)).text();
  if (newest.get(place) !== asked) return false;
  place.innerHTML = policy ? policy.createHTML(html) : html;
  return true;
}

// Put HTML of one line, which the service escaped, into an element.
export function fillLine(place, html) {
  place.innerHTML = policy ? policy.createHTML(html) : html;
}

// With these characters a line may read as another one: they turn the direction of text, or take no room.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

// Return text in which such characters are replaced by their numbers.
export function reveal(text) {
  return text.replace(HIDDEN, (found) => `⟨U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// Make an element of text and other elements: nothing in it is read as HTML.
export function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(attribute, value);
  }
  made.append(...inside.map((one) => (one instanceof Node ? one : reveal(String(one)))));
  return made;
}

// Say on the page what went wrong, and return the element that says it.
export function show(error) {
  if (error.name === "AbortError") return null;
  const place = document.getElementById("problems");
  const said = error instanceof Problem ? error.document : { title: "The page failed", detail: String(error) };
  const box = element("div", { class: "problem" }, element("strong", {}, said.title || "Refused"));
  box.append(element("p", {}, said.detail || ""));
  for (const one of said.errors || []) {
    box.append(element("p", {}, element("code", {}, one.pointer || ""), ` ${one.detail || ""}`));
  }
  if (said.remedy) box.append(element("p", {}, element("strong", {}, "What to do "), said.remedy));
  if (error.status === 401 && document.body.dataset.keys === "required") {
    box.append(element("p", {}, "Paste your API key at the top of the page."));
    document.getElementById("key")?.focus();
  }
  place.replaceChildren(box);
  if (error.status !== 401) place.scrollIntoView({ block: "nearest" });
  return box;
}

export function clearProblems() {
  document.getElementById("problems").replaceChildren();
}

// Run the work of a page, and again when the reader gave a key.
export async function run(work) {
  clearProblems();
  try {
    await work();
  } catch (error) {
    show(error);
  }
}

// Show what was printed; a very long text is cut, and says so.
export async function showLog(place) {
  const reader = (await ask(place.dataset.path)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    if (text.length > LOG_MAX) {
      text = `${text.slice(0, LOG_MAX)}\n… the rest is in ${place.dataset.path}`;
      await reader.cancel();
      break;
    }
  }
  place.textContent = reveal(text) || "Nothing was printed.";
}

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { title: `The service answered ${response.status}` };
  }
}

// A link cannot carry a key. With one, its file is asked for here and handed to the browser.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-download], a[data-open]");
  if (!link || !sessionStorage.getItem(KEY)) return;
  event.preventDefault();
  try {
    const response = await ask(link.getAttribute("href"));
    const named = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") || "");
    const address = URL.createObjectURL(await response.blob());
    const name = named ? named[1] : link.getAttribute("href").split("?")[0].split("/").pop();
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    show(error);
  }
});

// A browser that goes back shows a page as it was left: not to whoever has forgotten its key, or has another one.
const usedKey = sessionStorage.getItem(KEY);
window.addEventListener("pageshow", () => {
  if (sessionStorage.getItem(KEY) === usedKey) return;
  document.getElementById("main").replaceChildren();
  location.reload();
});

const keyForm = document.getElementById("key-form");
if (keyForm) {
  const field = document.getElementById("key");
  const forget = document.getElementById("key-forget");
  forget.hidden = !sessionStorage.getItem(KEY);
  if (sessionStorage.getItem(KEY)) field.placeholder = "a key is in use";
  keyForm.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = field.value.trim();
    if (!/^[!-~]+$/.test(given)) {
      show(new Error("This is no API key: it has characters that no key has. Copy it again, without quotes."));
      return;
    }
    sessionStorage.setItem(KEY, given);
    location.reload();
  });
  forget.addEventListener("click", () => {
    sessionStorage.removeItem(KEY);
    location.reload();
  });
}
