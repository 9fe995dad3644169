"""HTML of a report: escaped text, and tables that screen readers can follow."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from tracehouse.printable_text import TURNING

# Characters that take no room in a line, or that look like a space: two names may differ by them alone. Selectors of
# emoji are left: they change how a character looks.
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
# Characters that HTML cannot have, those of terminals, and those with which a line may read as another.
_HIDDEN = re.compile(f"[^\t\n\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{TURNING}{_UNSEEN}]")


class Html(str):
    """Markup that is not escaped again, by this module or by a template."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def text(value: object) -> Html:
    """Return a value as escaped text; invisible characters are replaced by their names. Markup is returned as it is."""
    if isinstance(value, Html):
        return value
    return Html(escape(reveal(str(value))))


def reveal(value: str) -> str:
    """Return text in which invisible characters are replaced by their names. It is not escaped."""
    return _HIDDEN.sub(_name_of_character, value)


def join(parts: Iterable[object], between: str = "") -> Html:
    """Join parts, each escaped unless it is markup; `between` is markup."""
    return Html(between.join(map(text, parts)))


def element(name: str, *inside: object, **attributes: str | None) -> Html:
    """Return an HTML element. `class_` and `for_` are the attributes `class` and `for`."""
    given = "".join(f' {key.rstrip("_")}="{text(value)}"' for key, value in attributes.items() if value is not None)
    return Html(f"<{name}{given}>{join(inside)}</{name}>")


def code(value: object) -> Html:
    return element("code", value)


def prose(value: str) -> Html:
    """Return text in which parts between backticks become code."""
    return join(code(part) if place % 2 else part for place, part in enumerate(re.split(r"`([^`]+)`", value)))


def section(title: str, *inside: object, name: str) -> Html:
    """Return a section of the page; `name` is the id of its heading."""
    return Html(f'<section aria-labelledby="{name}"><h2 id="{name}">{text(title)}</h2>{join(inside)}</section>')


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; the first cell of each row is the row's heading."""
    head = join(Html(f'<th scope="col">{text(heading)}</th>') for heading in headings)
    body = join(_row(row) for row in rows)
    return Html(
        f'<div class="scroll"><table><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def details(summary: str, *inside: object) -> Html:
    return element("details", element("summary", summary), *inside)


def lines(values: Sequence[object]) -> Html:
    """Return values one below the other, or a dash if there are none."""
    return join(values, "<br>") if values else Html("–")


def facts(rows: Iterable[tuple[str, object]]) -> Html:
    """Return a list of terms with their values."""
    return element("dl", *(join([element("dt", term), element("dd", value)]) for term, value in rows))


def _row(row: Sequence[object]) -> Html:
    first, *others = row
    return Html(f'<tr><th scope="row">{text(first)}</th>{join(element("td", cell) for cell in others)}</tr>')


def _name_of_character(found: re.Match[str]) -> str:
    character = found[0]
    return f"⟨{unicodedata.name(character, f'U+{ord(character):04X}')}⟩"
