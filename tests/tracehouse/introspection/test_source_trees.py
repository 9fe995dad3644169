"""The trees of source files: each text of a file has its own, and what can't be parsed has an empty one."""

import ast
import linecache
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracehouse.introspection import source_trees


def _write(file: Path, text: str) -> None:
    file.write_text(text)
    linecache.checkcache(str(file))


def _find_raises(tree: ast.Module) -> Iterator[ast.Raise]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Raise))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.py"


def test_a_line_is_within_each_statement_that_spans_it(file: Path) -> None:
    _write(file, "x = 1\nraise ValueError(\n    x\n)\n")

    assert [source_trees.is_within(str(file), line, _find_raises) for line in (1, 2, 3, 4)] == [False, True, True, True]


def test_a_file_that_changes_gets_another_tree(file: Path) -> None:
    _write(file, "raise ValueError\n")
    assert source_trees.is_within(str(file), 1, _find_raises)

    _write(file, "y = 1\n")

    assert not source_trees.is_within(str(file), 1, _find_raises)


@pytest.mark.parametrize("text", ["def", "x = '\0'", "(" * 500 + ")" * 500])
def test_what_cannot_be_parsed_has_nothing_in_it(file: Path, text: str) -> None:
    _write(file, text)

    assert not source_trees.parse_file(str(file)).body


def test_a_file_that_is_not_there_has_nothing_in_it(file: Path) -> None:
    assert not source_trees.parse_file(str(file)).body
