"""What `make docs` does to a page: fill in what is made from the code, and link to nothing that the site lacks."""

import re
from pathlib import Path
from typing import Any

from generated import GENERATED
from mkdocs.exceptions import PluginError

_MARK = re.compile(r"^<!-- made from the code: (\w+) -->$", re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\.?/[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - as MkDocs calls it
    """Return the page with its generated part."""
    place = Path(page.file.abs_src_path).parent
    return _MARK.sub(_generate, _unlink(markdown, place, Path(config["docs_dir"]).resolve()))


def _generate(mark: re.Match[str]) -> str:
    if mark[1] not in GENERATED:
        raise PluginError(f"nothing makes {mark[1]!r}: docs/site/generated.py has {', '.join(GENERATED)}")
    return GENERATED[mark[1]]()


def _unlink(markdown: str, place: Path, docs: Path) -> str:
    """Return the page with plain text for each link to a file of the repository outside of docs/."""

    def unlink(link: re.Match[str]) -> str:
        target = (place / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            raise PluginError(f"{link[0]} leads nowhere")
        return link[1]

    return _LINK.sub(unlink, markdown)
