"""Rendering: HTML of the studio, from its templates. Whatever is put into one is escaped as in the report."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tracehouse.report.markup import prose, text
from tracehouse.report.report_source import MARKS
from tracehouse.report.rounding import round_numbers


def render(name: str, /, **values: object) -> str:
    """Return the template of this name with these values in their places."""
    return _ENVIRONMENT.get_template(name).render(**values)


def _escape(value: Any) -> Any:
    """Escape as the report does: characters that hide, or turn the direction of text, become visible."""
    return value if hasattr(value, "__html__") else text("" if value is None else value)


_ENVIRONMENT = Environment(
    loader=PackageLoader("service.api.studio"),
    autoescape=True,
    finalize=_escape,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.filters["prose"] = prose
_ENVIRONMENT.filters["rounded"] = round_numbers
_ENVIRONMENT.globals["MARKS"] = MARKS
