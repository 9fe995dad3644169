"""The parts of the reference that are made from the code whenever the site is built."""

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

import service.api.app  # noqa: F401 - all problems are known once it is
from service.api.problems import status_of
from service.cli import app
from tracehouse.errors import by_slug
from tracehouse.findings.kinds import CATALOGUE, FindingKind

_OPENAPI = Path(__file__).parents[2] / "tests" / "service" / "api" / "openapi.json"
_WORDS = {
    "rejects": "rejects the trace",
    "restricts": "restricts it",
    "limits": "limits the verdict to self-consistent",
}


def commands() -> str:
    """Return a section for each command: how it is called, its arguments and its options."""
    return "\n\n".join(_sections(typer.main.get_command(app), "tracehouse", None))


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name.rpartition(" ")[2], parent=parent)
    usage = command.collect_usage_pieces(context)
    yield f"## {name}\n\n{_text(command.help or '')}\n\n```text\n{' '.join([name, *usage])}\n```"
    arguments = [one for one in command.get_params(context) if one.param_type_name == "argument"]
    options = [one for one in command.get_params(context) if one.param_type_name == "option"]
    for title, parameters in (("argument", arguments), ("option", options)):
        records = [record for one in parameters if (record := one.get_help_record(context)) is not None]
        if records:
            yield _table((title, ""), [(f"`{written}`", _cell(_text(said))) for written, said in records])
    for each in getattr(command, "commands", {}).values():
        yield from _sections(each, f"{name} {each.name}", context)


def routes() -> str:
    """Return a section for each tag of the API document, with its routes."""
    document = json.loads(_OPENAPI.read_text())
    return "\n\n".join(_routes_of(tag, document) for tag in document["tags"])


def _routes_of(tag: dict[str, str], document: dict[str, Any]) -> str:
    sections = [f"## {tag['name']}\n\n{tag['description']}"]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            if tag["name"] in route["tags"]:
                sections.append(_route(method.upper(), path, route))
    return "\n\n".join(sections)


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    scopes = [scope for one in route.get("security", []) for scopes in one.values() for scope in scopes]
    needs = f"Needs the scope `{'`, `'.join(scopes)}`." if scopes else "Needs no key."
    parts = [f"### `{method} {path}`", f"{route['summary']}. {needs}", route.get("description", "")]
    if parameters := route.get("parameters"):
        rows = [(f"`{one['name']}`", one["in"], _cell(one.get("description", ""))) for one in parameters]
        parts.append(_table(("parameter", "in", ""), rows))
    return "\n\n".join(filter(None, parts))


def findings() -> str:
    """Return a section for each kind of finding, in the order of their names."""
    return "\n\n".join(_finding(CATALOGUE[kind]) for kind in sorted(CATALOGUE))


def _finding(entry: FindingKind) -> str:
    parts = [f"## {entry.kind}", f"**{entry.title}.** {_weight(entry)}", entry.meaning, f"What to do: {entry.remedy}"]
    parts.append(f"```python\n{entry.example.before}\n```")
    if entry.example.after is not None:
        parts.append(f"Instead:\n\n```python\n{entry.example.after}\n```")
    return "\n\n".join(parts)


def _weight(entry: FindingKind) -> str:
    return f"It {_WORDS[entry.weight]}." if entry.weight in _WORDS else "It leaves the verdict as it is."


def problems() -> str:
    """Return a table of all problems, in the order of their codes."""
    rows = [
        (f"`{code}`", str(status_of(error)), _cell(error.title()), _cell(error.remedy() or ""))
        for code, error in sorted(by_slug().items())
    ]
    return _table(("code", "status", "what it means", "what to do"), rows)


_CONTRACT = (
    "Contract", "MethodContract", "Argument", "InputSpec", "ValueRange", "OutputSpec", "Region", "Span", "Batch",
    "Memory", "SizeProduct", "OtherRanks", "FixedDevice",
)  # fmt: skip


def contract() -> str:
    """Return a section for each object of a contract, with its members."""
    schemas = json.loads(_OPENAPI.read_text())["components"]["schemas"]
    return "\n\n".join(_object(name, schemas[name]) for name in _CONTRACT)


def _object(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (f"`{member}`", _cell(_type(one)), _cell(one.get("description", "")))
        for member, one in schema["properties"].items()
    ]
    return f"## {name}\n\n{schema.get('description', '')}\n\n{_table(('member', 'type', ''), rows)}"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    """Return Markdown on one line, with no bar that would end the cell; in code no bar does."""
    code_or_not = re.split(r"(`[^`]*`)", re.sub(r"\s+", " ", text).strip())
    return "".join(one if one.startswith("`") else one.replace("|", "&#124;") for one in code_or_not)


def _text(text: str) -> str:
    """Return plain text as Markdown that shows each character."""
    paragraphs = textwrap.dedent(text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\*_\[\]])", r"\\\1", paragraphs)


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "routes": routes,
    "findings": findings,
    "problems": problems,
    "contract": contract,
}
