// The page of a trace request: live while it runs, and then the verdict with all that it rests on.

import { ask, element, fill, reveal, run, show, showLog } from "./api.js";

const RETRY_MS = 1000;
const place = document.getElementById("trace");
const { id } = place.dataset;
const LAYERS_MAX = 500;

async function load() {
  await fill(place, `/studio/parts/trace/${encodeURIComponent(id)}${location.search}`);
  const state = document.getElementById("state").dataset;
  document.title = `${document.querySelector("h1").textContent} ${state.state} · Tracehouse`;
  const cancel = document.getElementById("cancel");
  cancel?.addEventListener("click", async () => {
    cancel.disabled = true;
    await ask(cancel.dataset.path, { method: "POST" }).catch(show);
  });
  const log = document.getElementById("log");
  if (state.final === "yes") await showLog(log);
  else follow(log);
}

// EventSource cannot send a key, so the stream is read here.
async function follow(log) {
  let seen = 0;
  for (;;) {
    try {
      const response = await ask(`/trace/${id}/events?after=${seen}`);
      if (response.status === 204) break;
      for await (const event of eventsOf(response)) {
        if (event.id) seen = Number(event.id);
        take(event.event, JSON.parse(event.data), log);
        if (event.event === "end") {
          await run(load);
          return;
        }
      }
    } catch (error) {
      if (error.status >= 400 && error.status < 500 && error.status !== 429) {
        show(error);
        return;
      }
    }
    // The stream ended early, as when the service was started anew.
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  await run(load);
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = { event: "message", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
      }
      text = text.slice(end + 2);
      if (event.data) yield event;
    }
  }
}

function take(kind, data, log) {
  const stage = document.getElementById("stage");
  if (!stage) return;
  if (kind === "position") {
    const start = data.expected_start ? new Date(data.expected_start).toLocaleTimeString() : "";
    const expected = start && `, expected to begin at ${start}`;
    stage.textContent = data.position ? `number ${data.position} in the queue${expected}` : "";
  }
  if (kind === "stage") stage.textContent = data.stage;
  if (typeof data.progress === "number") document.getElementById("progress").value = data.progress;
  const left = document.getElementById("left");
  if (kind === "stage") left.textContent = "";
  if (kind === "layer" && typeof data.budget_left_s === "number") {
    left.textContent = `at most ${Math.round(data.budget_left_s)} s of the check's budget left`;
  }
  const layers = document.getElementById("live-layers");
  if (kind === "layer" && layers.children.length < LAYERS_MAX) {
    const leftOut = data.left_out ? `, ${data.left_out} left out` : "";
    layers.append(
      element("li", {}, element("strong", {}, data.name), ` ${data.method}: ${data.summary}${leftOut}`),
    );
  }
  if (kind === "log" && log.textContent.length < 200_000) log.append(reveal(data.text));
}

run(load);
