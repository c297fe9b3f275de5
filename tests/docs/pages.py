"""The Python on the pages of the documentation, and how its output is held against what a page shows."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

DOCS = pathlib.Path(__file__).parents[2] / "docs"
#: A block of Python, and the output below it if there is any; a comment `<!-- python` is run and not shown.
BLOCK = re.compile(
    r"^```(?:python|\{code-block\} python\n:caption: manykernels\n)\n(?P<code>.*?)^```\n"
    r"(?:\n*^```text\n(?P<output>.*?)^```\n)?|^<!-- python\n(?P<hidden>.*?)^-->\n",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*\.?\d*(?:e[-+]?\d+)?|[-+]?\.\d+")


@dataclass(frozen=True)
class Block:
    """Some lines of a page that are run, and the output that the page shows."""

    line: int
    code: str
    output: str | None


def written() -> list[pathlib.Path]:
    """Return the pages, without what is built beside them."""
    return sorted([*DOCS.glob("*.md"), *DOCS.glob("solvers/*.md"), *DOCS.glob("tutorials/*.md")])


def pages() -> list[pathlib.Path]:
    """Return the pages that have Python on them."""
    return [path for path in written() if "```python\n" in path.read_text()]


def blocks(path: pathlib.Path) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found["code"] or found["hidden"], found["output"])


def run(path: pathlib.Path, given: dict[str, object] | None = None) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in one namespace, with names that are `given`, and yield each with what it printed."""
    names: dict[str, object] = {"__name__": "__main__"} | (given or {})
    for block in blocks(path):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * block.line + block.code, str(path), "exec"), names)
        yield block, printed.getvalue()


def differences(shown: str, printed: str, rel: float, slack: float) -> list[str]:
    """Return where two outputs differ: words exactly, numbers by more than `rel` and `slack` in their last digits."""
    ours, theirs = NUMBER.findall(shown), NUMBER.findall(printed)
    words = [" ".join(re.sub(r"[-+]", " ", NUMBER.sub("#", text)).split()) for text in (shown, printed)]
    if words[0] != words[1] or len(ours) != len(theirs):
        return [f"the page shows\n{shown}\nand the code prints\n{printed}"]
    pairs = [
        (float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in zip(ours, theirs, strict=True)
    ]
    return [
        f"{a} is shown, {b} is printed" for a, b in pairs if abs(a - b) > slack + rel * max(abs(a), abs(b))
    ]
