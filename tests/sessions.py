"""Sessions at a shell, as the documentation shows them: what is typed, and what is printed."""

import doctest
import re


def blocks_of(page: str, language: str) -> list[str]:
    """Return the page's code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def parse(block: str) -> list[tuple[str, str]]:
    """(command, what it prints): a command stands after `$ ` and goes on after `> `; `…` stands for anything."""
    steps: list[tuple[str, str]] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif line.startswith(">"):
            steps[-1] = (steps[-1][0] + (line[2:] or "\n"), "")
        else:
            steps[-1] = (steps[-1][0], steps[-1][1] + line)
    return steps


def without_cuts(printed: str) -> str:
    """Return what was printed without what was cut: a busy machine may cut the check, and the verdict then says so."""
    return re.sub(
        r", but the check is incomplete: .*?(?=   model:|, in this process|$)", "", printed, flags=re.MULTILINE
    )


def assert_as_shown(printed: str, shown: str) -> None:
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    pattern = shown.replace("…", "...")
    if not doctest.OutputChecker().check_output(pattern, printed.replace("…", "..."), doctest.ELLIPSIS):
        raise AssertionError(f"printed:\n{printed}\nshown:\n{shown}")
