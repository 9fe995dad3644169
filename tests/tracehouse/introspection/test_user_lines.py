"""Lines: the nearest one that is not torch's, in a library as in the source."""

import site

import torch

from service.sandbox import fork_server
from tracehouse.introspection import user_lines

_LIBRARY = f"{site.getsitepackages()[0]}/timm/models/resnet.py"


def test_of_a_node_the_nearest_line_counts_though_a_submitted_one_called_it() -> None:
    user_lines.submitted["net.py"] = "net"
    stack = f"{torch.__file__}(5): call\n{_LIBRARY}(7): forward\nnet.py(3): forward\n"

    found = user_lines.line_of_stack(stack)
    del user_lines.submitted["net.py"]

    assert found is not None
    assert (found.file, found.line) == ("timm/models/resnet.py", 7)


def test_a_node_that_no_user_line_made_has_none() -> None:
    stack = f"{torch.__file__}(5): call\n{user_lines.__file__}(7): traced\n{fork_server.__file__}(9): serve\n"

    assert user_lines.line_of_stack(stack) is None


def test_where_an_object_lies_in_memory_is_left_out() -> None:
    told = user_lines.error_text(ValueError(f"{object()} and {test_codes_for_a_terminal_are_left_out}"))

    assert told == "<object> and <function test_codes_for_a_terminal_are_left_out>"


def test_codes_for_a_terminal_are_left_out() -> None:
    assert user_lines.error_text(ValueError("\x1b[1mbold\x1b[0m")) == "bold"
