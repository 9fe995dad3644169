"""Paths in texts of torch and Python: texts for users have neither this machine's paths nor our own frames."""

import os
import re
import sysconfig
from pathlib import Path

# Where a submitted source lies for its own code (eager/memory_files). Users see its files without this.
SOURCE_FOLDER = "/memory/source"
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
SITE_PACKAGES = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]", re.MULTILINE)
_ROOT = str(Path(__file__).parents[2]) + os.sep
OURS = tuple(f"{_ROOT}{package}{os.sep}" for package in ("tracehouse", "service", "workers"))
_COMMENT = re.compile(r"# (?:/[^\s:]*)?[/\\](?:site|dist)-packages[/\\]")
_IN_STACK = re.compile(r"^([^\S\n]*)[/\\]\S.*?[/\\](?:site|dist)-packages[/\\]", re.MULTILINE)
# torch's compiler also shows places in its own library.
_IN_PLACE = re.compile(r'File "[^"]*[/\\](?:site|dist)-packages[/\\]')
# A frame of ours in a stack that torch prints with a node.
_FROM_OURS = "|".join(map(re.escape, OURS))
_OUR_FRAME = re.compile(rf"^[^\S\n]*(?:(?:{_FROM_OURS})\S*|<frozen \S+>)\(\d+\): .*\n?", re.MULTILINE)


def without_path(file: str) -> str:
    """Return a file's path as the user knows it, relative to the source, the packages or the standard library."""
    return without_source_folder(SITE_PACKAGES.sub("", file).removeprefix(STANDARD_LIBRARY))


def without_source_folder(text: str) -> str:
    """Return the text with the source's files as the user knows them."""
    return text.replace(SOURCE_FOLDER + "/", "")


def without_paths(text: str) -> str:
    """Return a graph's text or code, with only relative paths in the comments that say where a line comes from."""
    return without_source_folder(_COMMENT.sub("# ", text))


def without_paths_in_stacks(text: str) -> str:
    """Return a message that contains stacks and nodes, without this machine's paths and our own frames."""
    text = _OUR_FRAME.sub("", text)
    text = _IN_PLACE.sub('File "', _IN_STACK.sub(r"\1", without_paths(text)))
    return text.replace(_ROOT, "").replace(STANDARD_LIBRARY, "")
