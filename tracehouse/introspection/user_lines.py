"""The line of the user's own code that a stack, an error or a node of a graph belongs to.

It is the line of the nearest frame that is neither torch's, nor Python's, nor ours. A library such as timm is user
code, because it was not written to be traced. For an error, the nearest frame in a submitted file is preferred: that is
where a person can act, and the rest of the traceback is reported beside it.
"""

import dis
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from pydantic import JsonValue

from tracehouse.frozen import Frozen
from tracehouse.introspection import paths
from tracehouse.introspection.addresses import without_addresses
from tracehouse.introspection.paths import SITE_PACKAGES, STANDARD_LIBRARY

_TRACEBACK_MAX_FRAMES = 20
_TEXT_MAX_CHARACTERS = 4000
_TORCH = str(Path(torch.__file__).parent) + os.sep
_TORCH_JIT = _TORCH + "jit" + os.sep
# The comment after a node in the text of a graph.
_NODE_COMMENT = re.compile(r"# (\S+?):(\d+):\d+\s*$")
# torch's advice contains terminal codes.
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# A frame of the stack in node.sourceRange().
_STACK_LINE = re.compile(r"^[^\S\n]*(\S.*?)\((\d+)\): ", re.MULTILINE)
# The place of a scripted node in node.sourceRange(); some of the source around it follows.
_SCRIPT_LINE = re.compile(r'^[^\S\n]*File "(.+?)", line (\d+)$', re.MULTILINE)

# The names of the submitted modules, by the paths in their code objects.
submitted: dict[str, str] = {}
# More names of submitted modules: a source that puts its folders into `sys.path` may import a file under several names.
other_names: set[str] = set()
# Our files that a user's own program calls. The frames that called them are not the model's.
entry_files: set[str] = set()


class Line(Frozen):
    """A line of Python: `file` as the user knows it, `line` counted from 1, and the text of the line."""

    file: str
    line: int
    source: str


def submitted_modules() -> dict[str, ModuleType]:
    """Return the submitted modules that are imported, by their names; anything may stand in `sys.modules`."""
    names = dict.fromkeys([*submitted.values(), *sorted(other_names)])
    found = {name: sys.modules[name] for name in names if name in sys.modules}
    return {name: module for name, module in found.items() if issubclass(type(module), ModuleType)}


def line_of_frame(frame: FrameType | None) -> Line | None:
    """Return the user's line that a running frame is at, or was called from."""
    return _nearest(_frames(frame))


def line_of_stack(text: str) -> Line | None:
    """Return the user's line in the source range of a node: a stack, innermost frame first, or a place in a script."""
    return _nearest(frames_of_stack(text))


def frames_of_stack(text: str) -> list[tuple[str, int]]:
    """Return the user's frames in the source range of a node, innermost first, as file and line number."""
    frame = _SCRIPT_LINE if text.lstrip().startswith('File "') else _STACK_LINE
    found = frame.findall(paths.without_source_folder(text))
    inside = takewhile(lambda place: place[0] not in entry_files, found)
    return [(file, int(line)) for file, line in inside if is_user(file)]


def line_of_comment(node: str) -> Line | None:
    """Return the submitted line that the comment after a node names; it has only the innermost frame."""
    place = _NODE_COMMENT.search(paths.without_source_folder(node))
    return line_at(place[1], int(place[2])) if place and place[1] in submitted else None


def line_of_compiler_error(text: str) -> Line | None:
    """Return the user's line in a message of torch's compiler, the nearest one in a submitted file if there is any."""
    found = _SCRIPT_LINE.findall(paths.without_source_folder(text))
    frames = [(file, int(number)) for file, number in found if is_user(file)]
    return _nearest([frame for frame in frames if frame[0] in submitted] or frames)


def line_of_function(function: object) -> Line | None:
    """Return the line where a user's function is defined."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return None if code is None or not is_user(code.co_filename) else line_at(code.co_filename, code.co_firstlineno)


def line_of_attribute(kind: type, name: str) -> Line | None:
    """Return the line where a method of the class first assigns or registers an attribute, else that of `__init__`."""
    for function in filter(inspect.isfunction, [part for one in kind.__mro__ for part in vars(one).values()]):
        code = function.__code__
        if not is_user(code.co_filename):
            continue
        for instruction in dis.get_instructions(code):
            if instruction.argval == name and instruction.opname in ("STORE_ATTR", "LOAD_CONST"):
                number = instruction.positions.lineno if instruction.positions else None
                return line_at(code.co_filename, number or code.co_firstlineno)
    return line_of_function(getattr(kind, "__init__", None))


def line_of_error(error: BaseException) -> Line | None:
    """Return the user's line that raised, or that called what raised, or that torch's compiler refused."""
    if isinstance(error, SyntaxError) and error.filename in submitted and error.lineno is not None:
        return line_at(error.filename, error.lineno)
    innermost_first = _traceback(error)[::-1]
    raised_in_torch_jit = bool(innermost_first) and innermost_first[0][0].startswith(_TORCH_JIT)
    if raised_in_torch_jit and (compiled := line_of_compiler_error(full_error_text(error))) is not None:
        return compiled
    frames = [(file, number) for file, number in innermost_first if is_user(file)]
    return _nearest([frame for frame in frames if frame[0] in submitted] or frames)


def raises_itself(error: BaseException) -> bool:
    """Whether the error is raised by a line of the user's, and not by what such a line calls."""
    frames = _traceback(error)
    return bool(frames) and is_user(frames[-1][0])


def error_facts(error: BaseException) -> dict[str, JsonValue]:
    """Return what a user can act on: exception, message, line, and the user's frames of the traceback."""
    line = line_of_error(error)
    frames = [line_at(file, number) for file, number in _traceback(error) if is_user(file)]
    return {
        "exception": type(error).__name__,
        "message": public_error_text(error),
        **line_facts(line),
        "traceback": [frame.model_dump() for frame in frames[-_TRACEBACK_MAX_FRAMES:]],
    }


def line_facts(line: Line | None) -> dict[str, Any]:
    """Return the line as facts for an error or a finding: file, line and source. No facts if no line is known."""
    return {} if line is None else line.model_dump()


def error_text(error: BaseException) -> str:
    """Return the exception's message, cut to 4000 characters."""
    return shorten(full_error_text(error), _TEXT_MAX_CHARACTERS)


def last_error_line(error: BaseException) -> str:
    """Return the last line of the exception's message, cut to 4000 characters; its type's name if it has no message.

    torch puts what happened there, after the lines of a graph, which alone may be longer.
    """
    lines = full_error_text(error).strip().splitlines()
    return shorten(lines[-1], _TEXT_MAX_CHARACTERS) if lines else type(error).__name__


def public_error_text(error: BaseException) -> str:
    """Return the exception's message for a user: cut to 4000 characters, and without this machine's paths."""
    return shorten(paths.without_paths_in_stacks(full_error_text(error)), _TEXT_MAX_CHARACTERS)


def full_error_text(error: BaseException) -> str:
    """Return the exception's whole message, without memory addresses. Submitted exceptions may fail to give one."""
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - submitted code: __str__ may raise anything
        text = f"<its __str__ raised {type(unprintable).__name__}>"
    return without_addresses(clean_text(text))


def clean_text(text: str) -> str:
    """Return the text without terminal codes, and with lone surrogates, which JSON cannot have, escaped."""
    return _TERMINAL_CODE.sub("", text).encode(errors="backslashreplace").decode()


def shorten(text: str, most: int) -> str:
    """Return the text, or its first `most` characters and "..." if it is longer."""
    return text if len(text) <= most else text[:most] + " ..."


def is_user(file: str) -> bool:
    """Whether a file is the user's code: neither ours, nor torch's, nor of the standard library."""
    if file in submitted:
        return True
    if is_ours(file) or file.startswith(("<", _TORCH)):
        return False
    return SITE_PACKAGES.match(file) is not None or not file.startswith(STANDARD_LIBRARY)


def is_ours(file: str) -> bool:
    """Whether a file belongs to this project."""
    return file.startswith(paths.OURS)


def is_library_of_torch(file: str) -> bool:
    """Whether a file belongs to torch, but not to torch.jit."""
    return file.startswith(_TORCH) and not file.startswith(_TORCH_JIT)


def line_at(file: str, number: int) -> Line:
    """Return the line of a file with this number, from 1 on; its text is empty if the file cannot be read."""
    return Line(file=paths.without_path(file), line=number, source=linecache.getline(file, number).strip())


def _nearest(innermost_first: Iterable[tuple[str, int]]) -> Line | None:
    return next((line_at(file, number) for file, number in innermost_first if is_user(file)), None)


def _frames(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None and frame.f_code.co_filename not in entry_files:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _traceback(error: BaseException) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
