"""Source excerpts: the submitted files that findings name, kept to be shown beside them."""

import linecache
from collections.abc import Iterable

import orjson

from tracehouse.artifact.file_limits import SOURCES_MAX_BYTES
from tracehouse.findings.finding import Finding
from tracehouse.introspection import paths, user_lines


def collect_excerpts(findings: Iterable[Finding]) -> bytes:
    """Return the files as JSON, each path with its text.

    The files with the most findings come first. Files beyond SOURCES_MAX_BYTES bytes together are left out.
    """
    named = [finding.file for finding in findings if finding.file is not None]
    files = {paths.without_path(file): file for file in user_lines.submitted}
    kept: dict[str, str] = {}
    left = SOURCES_MAX_BYTES
    for path in sorted(set(named) & files.keys(), key=named.count, reverse=True):
        text = user_lines.clean_text("".join(linecache.getlines(files[path])))
        left -= len(orjson.dumps(text))
        if left < 0:
            break
        kept[path] = text
    return orjson.dumps(kept)
