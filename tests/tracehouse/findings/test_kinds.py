"""The catalogue: an entry for every kind that the code can make, and the weight that each gives."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import service
import tracehouse
import workers
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import CATALOGUE, FindingKind, Kind, Weight, decides_alone, entry_of, speaks_against
from tracehouse.findings.verdict import Verdict, verdict_of

ROOTS = [Path(package.__file__ or "").parent for package in (tracehouse, service, workers)]


def constructions() -> Iterator[tuple[str, ast.Call]]:
    """Every call of `Finding(...)` in the three roots, with the file it is in."""
    for root in ROOTS:
        for file in root.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                    yield str(file.relative_to(root.parent)), node


def kinds_named(node: ast.Call) -> set[str]:
    """The members of Kind in the argument `kind`: no type checker would find a misspelt string there."""
    [kind] = [each.value for each in node.keywords if each.arg == "kind"]
    choices = [kind.body, kind.orelse] if isinstance(kind, ast.IfExp) else [kind]
    assert all(ast.unparse(choice).startswith("Kind.") for choice in choices), ast.unparse(node)
    return {Kind[choice.attr].value for choice in choices if isinstance(choice, ast.Attribute)}


def test_a_finding_is_made_by_the_constructors_alone() -> None:
    assert {str(Path(file).parent) for file, _ in constructions()} == {"tracehouse/findings"}


def test_the_catalogue_has_every_kind_that_the_code_makes_and_no_other() -> None:
    made = {kind for _, node in constructions() for kind in kinds_named(node)}

    assert made == set(CATALOGUE) == set(Kind)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=str)
def test_an_entry_has_all_its_texts(entry: FindingKind) -> None:
    assert entry.title
    assert not entry.title.endswith(".")
    for sentence in (entry.meaning, entry.remedy):
        assert sentence[0].isupper() or sentence.startswith(("torch", "`"))
        assert sentence.endswith(".")
        assert "  " not in sentence
    assert entry.example.before.strip()
    assert entry.example.after != entry.example.before


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=str)
def test_an_example_is_python_or_a_part_of_a_request(entry: FindingKind) -> None:
    for text in filter(None, (entry.example.before, entry.example.after)):
        assert is_python(text) or is_part_of_a_request(text), text


def is_python(text: str) -> bool:
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def is_part_of_a_request(text: str) -> bool:
    try:
        return bool(json.loads(f"{{{text}}}"))
    except ValueError:
        return bool(json.loads(text))


def test_a_kind_of_an_earlier_release_is_read_and_weighs_nothing() -> None:
    finding = Finding.model_validate_json(b'{"kind": "old-kind", "detail": "it was so"}')

    assert entry_of(finding.kind) is None
    assert not speaks_against(finding.kind)
    assert verdict_of([], [finding]) is Verdict.VERIFIED


@pytest.mark.parametrize("kind", Kind)
def test_the_verdict_is_what_the_entry_says(kind: Kind) -> None:
    entry = CATALOGUE[kind]
    verdict = {
        Weight.REJECTS: Verdict.REJECTED,
        Weight.RESTRICTS: Verdict.RESTRICTED,
        Weight.LIMITS: Verdict.SELF_CONSISTENT,
        Weight.INFORMS: Verdict.VERIFIED,
    }
    alone = verdict_of([], [Finding(kind=kind, detail="")])
    differs = Comparison(method="forward", case="c", in_contract=entry.weight is Weight.REJECTS, agrees=False)

    assert alone is (Verdict.VERIFIED if entry.by_comparison else verdict[entry.weight])
    assert decides_alone(kind, entry.weight) is not entry.by_comparison
    if entry.by_comparison:
        assert verdict_of([differs], [Finding(kind=kind, detail="")]) is verdict[entry.weight]
