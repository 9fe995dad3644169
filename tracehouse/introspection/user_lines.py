"""Which line of the user's own code a stack, an error or a node of a graph belongs to.

The nearest frame that is neither torch's, nor Python's, nor ours: a library such as timm is user code, for it was not
written to be traced. Of an error, the nearest in a submitted file: that is where a person can act, and the rest of the
traceback stands beside it.
"""

import dis
import inspect
import linecache
import os
import re
import traceback
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from types import FrameType
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
# Behind a node in the text of a graph.
_NODE_COMMENT = re.compile(r"# (\S+?):(\d+):\d+\s*$")
# torch's advice has them, as if it were read on a terminal.
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# As a stack reads in node.sourceRange().
_STACK_LINE = re.compile(r"^\s*(\S.*?)\((\d+)\): ", re.MULTILINE)
# The same of a node that was scripted: its line, and some of the source around it.
_SCRIPT_LINE = re.compile(r'^\s*File "(.+?)", line (\d+)$', re.MULTILINE)

# The modules that were submitted, by the paths that their code objects carry.
submitted: dict[str, str] = {}
# Our files that a user's own code calls in its process: the frames that called them are not the model's.
entry_files: set[str] = set()


class Line(Frozen):
    """A line of Python; `file` is as the user knows it, without this machine's paths."""

    file: str
    line: int
    source: str


def line_of_frame(frame: FrameType | None) -> Line | None:
    """The user's line that a running frame is, or was called from."""
    return _nearest(_frames(frame))


def line_of_stack(text: str) -> Line | None:
    """The user's line in a stack as torch prints it with a node, innermost frame first; or in a script."""
    return _nearest(frames_of_stack(text))


def frames_of_stack(text: str) -> list[tuple[str, int]]:
    """The user's frames in such a stack."""
    frame = _SCRIPT_LINE if text.lstrip().startswith('File "') else _STACK_LINE
    inside = takewhile(lambda found: found[0] not in entry_files, frame.findall(text))
    return [(file, int(line)) for file, line in inside if is_user(file)]


def line_of_comment(node: str) -> Line | None:
    """The submitted line behind a node as a graph's text has it, which names the innermost frame alone."""
    place = _NODE_COMMENT.search(node)
    return line_at(place[1], int(place[2])) if place and place[1] in submitted else None


def line_of_compiler_error(text: str) -> Line | None:
    """The user's line in what torch's compiler says: the nearest in a submitted file, where there is one."""
    frames = [(file, int(number)) for file, number in _SCRIPT_LINE.findall(text) if is_user(file)]
    return _nearest([frame for frame in frames if frame[0] in submitted] or frames)


def line_of_function(function: object) -> Line | None:
    """The line where a function is defined."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return None if code is None or not is_user(code.co_filename) else line_at(code.co_filename, code.co_firstlineno)


def line_of_attribute(kind: type, name: str) -> Line | None:
    """The line where a class's methods name an attribute first, to assign or register it; else where it is defined."""
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
    """The user's line that raised, or that called what raised; or the one that torch's compiler did not take."""
    if isinstance(error, SyntaxError) and error.filename in submitted and error.lineno is not None:
        return line_at(error.filename, error.lineno)
    innermost_first = _traceback(error)[::-1]
    raised_in_torch_jit = bool(innermost_first) and innermost_first[0][0].startswith(_TORCH_JIT)
    if raised_in_torch_jit and (compiled := line_of_compiler_error(full_error_text(error))) is not None:
        return compiled
    frames = [(file, number) for file, number in innermost_first if is_user(file)]
    return _nearest([frame for frame in frames if frame[0] in submitted] or frames)


def error_facts(error: BaseException) -> dict[str, JsonValue]:
    """What a user can act on: the exception, the line, and the traceback's frames that are the user's."""
    line = line_of_error(error)
    frames = [line_at(file, number) for file, number in _traceback(error) if is_user(file)]
    return {
        "exception": type(error).__name__,
        "message": public_error_text(error),
        **line_facts(line),
        "traceback": [frame.model_dump() for frame in frames[-_TRACEBACK_MAX_FRAMES:]],
    }


def line_facts(line: Line | None) -> dict[str, Any]:
    """As an error and a finding have it among their facts; nothing where no line is known."""
    return {} if line is None else line.model_dump()


def error_text(error: BaseException) -> str:
    """What the exception says, of what is long the beginning."""
    return shorten(full_error_text(error), _TEXT_MAX_CHARACTERS)


def public_error_text(error: BaseException) -> str:
    """The same as a user is shown it, without this machine's paths."""
    return shorten(paths.without_paths_in_stacks(full_error_text(error)), _TEXT_MAX_CHARACTERS)


def full_error_text(error: BaseException) -> str:
    """What the exception says; an exception that cannot say it is a submitted one."""
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - submitted code: __str__ may raise anything
        text = f"<its __str__ raised {type(unprintable).__name__}>"
    return without_addresses(clean_text(text))


def clean_text(text: str) -> str:
    """Without codes for a terminal, and without lone surrogates, which cannot be sent as JSON."""
    return _TERMINAL_CODE.sub("", text).encode(errors="backslashreplace").decode()


def shorten(text: str, most: int) -> str:
    """Of what is longer, the beginning."""
    return text if len(text) <= most else text[:most] + " ..."


def is_user(file: str) -> bool:
    if file in submitted:
        return True
    if is_ours(file) or file.startswith(("<", _TORCH)):
        return False
    return SITE_PACKAGES.match(file) is not None or not file.startswith(STANDARD_LIBRARY)


def is_ours(file: str) -> bool:
    return file.startswith(paths.OURS)


def is_library_of_torch(file: str) -> bool:
    """torch's modules, but for the tracer itself."""
    return file.startswith(_TORCH) and not file.startswith(_TORCH_JIT)


def line_at(file: str, number: int) -> Line:
    return Line(file=paths.without_path(file), line=number, source=linecache.getline(file, number).strip())


def _nearest(innermost_first: Iterable[tuple[str, int]]) -> Line | None:
    return next((line_at(file, number) for file, number in innermost_first if is_user(file)), None)


def _frames(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None and frame.f_code.co_filename not in entry_files:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _traceback(error: BaseException) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
