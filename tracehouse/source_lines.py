"""The lines of a Python source, as Python numbers them."""

from io import StringIO


def split_source(text: str, *, keepends: bool = False) -> list[str]:
    """Return the lines; with `keepends`, each has the line feed that ends it.

    `str.splitlines` ends lines at form feeds and at separators of Unicode too, where Python ends none.
    """
    lines = StringIO(text, newline=None).readlines()
    return lines if keepends else [line.removesuffix("\n") for line in lines]
