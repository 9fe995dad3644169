"""docs/torch-features.md: its table, the tests and the requests that it links to are in step."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "torch-features.md"
EXAMPLES = ROOT / "examples" / "torch"

# What torch.jit has, in the order in which it is to be found here.
FEATURES = [
    "torch.jit.trace",
    "example_inputs",
    "torch.jit.trace_module",
    "check_trace",
    "graph diff",
    "nondeterministic nodes",
    "TracerWarning",
    "strict",
    "training and eval mode",
    "ScriptModule",
    ".graph",
    "mixing tracing and scripting",
    "freeze",
    "verify",
    "exportability report",
    "torch.autograd.Function",
    "ONNXTracedModule",
    "PYTORCH_JIT=0",
    "train on GPU, infer on CPU",
    "the FAQ's errors",
]

Row = tuple[str, str, str, str]
LINK = re.compile(r"\[`([^`]+)`\]\(\.\./([^)#]+)\)")
NAMED = re.compile(r" \(((?:`\w+`(?:, )?)+)\)")


def rows() -> list[Row]:
    """(feature, here, tests, requests) of each."""
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    cells = [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in table]
    return [(feature, here, tests, requests) for feature, here, tests, requests in cells]


def name_of(row: Row) -> str:
    return row[0].replace("`", "")


def test_every_feature_has_its_row() -> None:
    names = [name_of(row) for row in rows()]
    assert len(names) == len(FEATURES)
    assert all(name.startswith(feature) for name, feature in zip(names, FEATURES, strict=True)), names


@pytest.mark.parametrize("row", rows(), ids=name_of)
def test_every_row_links_to_tests_and_to_requests_that_are_there(row: Row) -> None:
    tests, requests = LINK.findall(row[2]), LINK.findall(row[3])
    assert tests
    assert requests
    for name, file in tests:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"
    for name, file in requests:
        assert file == f"examples/torch/{name}/request.json"
        assert (ROOT / file).is_file(), file


def test_every_example_is_linked() -> None:
    linked = {name for row in rows() for name, _ in LINK.findall(row[3])}
    assert linked == examples()


def test_the_examples_that_the_text_names_are_there() -> None:
    text = PAGE.read_text().rpartition("\n## ")[2]
    named = {name for group in NAMED.findall(text) for name in re.findall(r"\w+", group)}
    assert named
    assert named <= examples()


def examples() -> set[str]:
    return {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()}
