"""The examples of torch's documentation of torch.jit, sent through the API, end as Tracehouse promises.

A folder of examples/torch has a `request.json`, the body of `POST /trace`, the files that it names, and an
`expected.json`, which says what must come back:

- `trace`: of the trace request as it ended, or of the problem that refused it; `status`: of that reply, if not 200;
- `artifact`: of its manifest; `pages`: of the texts below it, by their paths, such as `printouts/code?method=forward`;
- `infer`: a list of questions, each with its `body`, its `method` if it is not `forward`, the `reply`, and its
  `status` if it is not 200;
- `log`: of what the source printed; `outputs`: of what an eager run returned;
- `files`: those that are not kept in the folder: by their names, the folder whose artifact has them as its archive.

What is expected is matched like this: an object has at least these members; a list has for each object one that
matches; any other list or value is equal, with floats to four digits; and `{"has": […], "lacks": […]}` stands for a
text with these pieces in it and without those, or for a list with and without what matches these. Findings that tell
what there was no time for are left out: they hang on the machine.
"""

import json
from math import isclose
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import ended

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_of_the_documentation_ends_as_expected(client: httpx.Client, name: str) -> None:
    expected = json.loads((EXAMPLES / name / "expected.json").read_text())
    reply = submit(client, name, expected)
    trace = reply.json()
    assert reply.status_code == expected.get("status", 200), reply.text
    if "findings" in trace:
        trace["findings"] = [one for one in trace["findings"] if not one["kind"].endswith("-left-out")]
    assert_matches(expected["trace"], trace, "trace")
    if "log" in expected:
        assert_matches(expected["log"], client.get(trace["links"]["log"]).text, "log")
    if "outputs" in expected:
        assert_matches(expected["outputs"], client.get(trace["links"]["outputs"]).json(), "outputs")
    if "artifact" in expected:
        assert_matches(expected["artifact"], client.get(trace["links"]["artifact"]).json(), "artifact")
    for page, text in expected.get("pages", {}).items():
        read = client.get(f"{trace['links']['artifact']}/{page}").raise_for_status()
        assert_matches(text, read.text, page)
    for question in expected.get("infer", []):
        params = {"method": question.get("method", "forward")}
        answer = client.post(f"/infer/{trace['model']['name']}", json=question["body"], params=params)
        assert answer.status_code == question.get("status", 200), answer.text
        assert_matches(question["reply"], answer.json(), "infer")


def submit(client: httpx.Client, name: str, expected: Any) -> httpx.Response:
    """As `curl -F request=@request.json -F files=@net.py` does."""
    folder = EXAMPLES / name
    kept = {path.name: path.read_bytes() for path in folder.glob("*.py")}
    made = {file: archive(client, other) for file, other in expected.get("files", {}).items()}
    parts = [("request", ("request.json", (folder / "request.json").read_bytes(), "application/json"))]
    parts += [("files", (file, data, "application/octet-stream")) for file, data in (kept | made).items()]
    reply = client.post("/trace", files=parts, headers={"prefer": "wait=60"})
    if reply.status_code == 202 and reply.json()["waiting"] is None:  # the machine is busy; no worker is missing
        reply = client.get(ended(client, reply)["links"]["self"])
    return reply


def archive(client: httpx.Client, name: str) -> bytes:
    trace = submit(client, name, {}).json()
    return client.get(f"{trace['links']['artifact']}/archive").raise_for_status().content


def assert_matches(expected: Any, actual: Any, at: str) -> None:
    assert matches(expected, actual), f"{at}: expected {json.dumps(expected)}, got {json.dumps(actual, indent=1)}"


def matches(expected: Any, actual: Any) -> bool:
    match expected:
        case {"has": _} | {"lacks": _}:
            return all(is_in(one, actual) for one in expected.get("has", [])) and not any(
                is_in(one, actual) for one in expected.get("lacks", [])
            )
        case dict():
            return isinstance(actual, dict) and all(
                key in actual and matches(value, actual[key]) for key, value in expected.items()
            )
        case [{}, *_]:
            return isinstance(actual, list) and all(is_in(one, actual) for one in expected)
        case list():
            return isinstance(actual, list) and len(actual) == len(expected) and all(map(matches, expected, actual))
        case float():
            return isinstance(actual, int | float) and isclose(expected, actual, rel_tol=1e-4, abs_tol=1e-4)
    return bool(expected == actual)


def is_in(one: Any, actual: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(one, str) and one in actual
    return isinstance(actual, list) and any(matches(one, item) for item in actual)
