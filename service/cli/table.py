"""A table in a shell: a line for each row, however wide, so that grep finds whole rows."""

from collections.abc import Sequence

import typer

from tracehouse.printable_text import printable_line


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print the rows, of which the first has the headings."""
    shown = [[printable_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
