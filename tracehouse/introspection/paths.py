"""Paths: what torch and Python say of a model, without this machine's paths and our own frames."""

import os
import re
import sysconfig
from pathlib import Path

STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
SITE_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
_ROOT = str(Path(__file__).parents[2]) + os.sep
OURS = tuple(f"{_ROOT}{package}{os.sep}" for package in ("tracehouse", "service", "workers"))
_COMMENT = re.compile(r"# (?:/[^\s:]*)?[/\\](?:site|dist)-packages[/\\]")
_IN_STACK = re.compile(r"^(\s*)[/\\]\S.*?[/\\](?:site|dist)-packages[/\\]", re.MULTILINE)
# The compiler shows places in its own library, too.
_IN_PLACE = re.compile(r'File "[^"]*[/\\](?:site|dist)-packages[/\\]')
# As torch prints a stack with a node: the frames that led from our start to the user's code.
_FROM_OURS = "|".join(map(re.escape, OURS))
_OUR_FRAME = re.compile(rf"^\s*(?:(?:{_FROM_OURS})\S*|<frozen \S+>)\(\d+\): .*\n?", re.MULTILINE)


def without_path(file: str) -> str:
    """A file as the user knows it."""
    return SITE_PACKAGES.sub("", file).removeprefix(STANDARD_LIBRARY)


def without_paths(text: str) -> str:
    """A graph's text or code, its comments on where a line comes from without this machine's paths."""
    return _COMMENT.sub("# ", text)


def without_paths_in_stacks(text: str) -> str:
    """What torch says with stacks and nodes in it, without this machine's paths and our own frames."""
    shown = _OUR_FRAME.sub("", text)
    shown = _IN_PLACE.sub('File "', _IN_STACK.sub(r"\1", without_paths(shown)))
    return shown.replace(_ROOT, "").replace(STANDARD_LIBRARY, "")
