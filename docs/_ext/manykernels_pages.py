"""Directives whose contents come from the package itself, so that pages cannot fall behind it.

``{takes} LpNorm`` lists what a solver takes, ``{compatibility}`` is the table of all of them, and ``{commands}`` the
reference of the command line. ``with_defaults`` adds the default of every parameter to the reference,
``with_whole_figures`` links wide figures to themselves. Formulas become MathML, which browsers draw themselves, so that
pages need no network.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import imagesize  # Sphinx needs it, too
from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.docutils import SphinxDirective

#: The width of the text of a page, in pixels.
PAGE = 752
#: The kinds of `tests.contracts.compatibility` in words.
KIND_WORDS = {
    "list": "lists of kernels",
    "Precomputed": "precomputed matrices",
    "Products": "`Products`",
    "Gaussians": "`Gaussians`",
    "Laplacians": "`Laplacians`",
    "Dirichlets": "`Dirichlets`",
    "Union": "unions with bandwidths",
    "Union of lists": "unions of lists",
}


class _Written(SphinxDirective):
    """A directive that writes Markdown, which is then parsed where it stands."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        node = nodes.Element()
        node.document = self.state.document
        lines = StringList(self.lines(), source=self.env.docname)
        self.state.nested_parse(lines, self.content_offset, node, match_titles=True)
        return node.children


class Takes(_Written):
    """What the solver that is named takes, its name in `solver=` and its parameters with their defaults."""

    required_arguments = 1

    def lines(self):
        from tests.contracts.compatibility import kinds_of, losses_of, solvers

        from manykernels.losses import LOSSES

        wanted = self.arguments[0]
        name, solver = next(
            (n, s) for n, s in solvers().items() if type(s).__name__ == wanted
        )
        kinds = ", ".join(KIND_WORDS[kind] for kind in kinds_of(solver))
        losses = losses_of(solver)
        refused = [loss for loss in LOSSES if loss not in losses]
        told = _coded(losses) if len(losses) <= len(refused) else "all" + _but(refused)
        return [
            f'| name | `solver="{name}"` |',
            "|---|---|",
            f"| defaults | {_coded(_defaults(type(solver))) or 'no parameters'} |",
            f"| kernels | {kinds} |",
            f"| losses | {told} |",
            f"| reference | {{py:class}}`manykernels.solvers.{wanted}` |",
            "",
        ]


def _defaults(kind) -> list[str]:
    """Return the parameters of a class, as they are by default."""
    return [
        f"{name}={_shown(p.default)}"
        for name, p in inspect.signature(kind).parameters.items()
    ]


def _coded(words) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _but(words) -> str:
    return f" but {_coded(words)}" if words else ""


class Compatibility(_Written):
    """A table of solvers by ``kernels`` or by ``losses``."""

    required_arguments = 1

    def run(self):
        written = super().run()
        for table in [table for node in written for table in node.findall(nodes.table)]:
            table["classes"].append("ticks")
        return written

    def lines(self):
        from tests.contracts.compatibility import KINDS, kinds_of, losses_of, solvers

        from manykernels.losses import LOSSES

        every = solvers()
        if self.arguments[0] == "kernels":
            words = [word[0].upper() + word[1:] for word in KIND_WORDS.values()]
            return _grid(
                "Solver",
                words,
                every,
                lambda name: [x in kinds_of(every[name]) for x in KINDS],
            )
        return _grid(
            "Solver",
            [f"`{x}`" for x in LOSSES],
            every,
            lambda name: [x in losses_of(every[name]) for x in LOSSES],
        )


def _grid(corner, heads, rows, marks) -> list[str]:
    """Return a table of ticks, in Markdown."""
    lines = [f"| {corner} | " + " | ".join(heads) + " |", "|---|" + ":-:|" * len(heads)]
    for name, solver in rows.items():
        cells = ["✓" if mark else "–" for mark in marks(name)]
        lines.append(
            f"| [{type(solver).__name__}](solvers/{name}.md) | " + " | ".join(cells) + " |"
        )
    return lines


class Commands(_Written):
    """Every command with its arguments and options, as typer knows them."""

    def lines(self):
        import typer

        from manykernels.cli import application

        lines = []
        for name, command in typer.main.get_command(application()).commands.items():
            arguments = [p for p in command.params if not p.opts[0].startswith("-")]
            options = [
                p for p in command.params if p.opts[0].startswith("-") and not p.hidden
            ]
            usage = " ".join(
                p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments
            )
            lines += ["", f"## {name}", "", inspect.cleandoc(command.help), ""]
            lines += [
                "```text",
                f"manykernels {name} {usage}".rstrip() + (" [OPTIONS]" if options else ""),
                "```",
                "",
            ]
            lines += ["| | What it says | Default |", "|---|---|---|"]
            lines += [
                f"| `{p.name.upper()}` | {_cell(p.help)} | {_default(p)} |"
                for p in arguments
            ]
            lines += [f"| {_flags(p)} | {_cell(p.help)} | {_default(p)} |" for p in options]
        return lines


def _flags(option) -> str:
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _cell(text) -> str:
    """Return a help text in a cell of a table, where signs of Markdown are signs."""
    return re.sub(r"([|*_<>\[\]])", r"\\\1", text or "")


def _default(param) -> str:
    if param.required:
        return "required"
    value = param.default
    if value is None or value == () or callable(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value and param.secondary_opts else "no"
    return f"`{value}`"


def with_defaults(app, what, name, obj, options, lines):
    """Add the default of every parameter to its line in a numpydoc docstring."""
    try:
        parameters = inspect.signature(obj).parameters
    except (TypeError, ValueError):
        return
    start = next(
        (i for i, line in enumerate(lines[:-1]) if line.strip() == "Parameters"), None
    )
    if start is None:
        return
    for i in range(start + 2, len(lines)):
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
            return
        found = re.fullmatch(r"(\w+) : (.+)", lines[i])
        if (
            not found
            or found[1] not in parameters
            or "optional" in found[2]
            or "default" in found[2]
        ):
            continue
        default = parameters[found[1]].default
        if default is not inspect.Parameter.empty:
            lines[i] += f", default {_shown(default)}"


def with_fractions(app, what, name, obj, options, signature, returned):
    """Show a default of 4/3 as such."""
    return (signature.replace(repr(4 / 3), "4/3") if signature else signature), returned


def _shown(value) -> str:
    """Return a default as one would type it."""
    if value == 4 / 3:
        return "4/3"
    return getattr(value, "__name__", None) or repr(value)


def with_whole_figures(app, doctree):
    """Let a click on a figure that is wider than the page open it as it is; Sphinx links what has a width."""
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir) / image["uri"]
        if path.is_file() and imagesize.get(path)[0] > PAGE:
            image["width"] = "100%"


def _formula(self, node):
    """Write a formula within a line."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _displayed(self, node):
    """Write a formula of its own."""
    self.body.append(
        f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>'
    )
    raise nodes.SkipNode


def setup(app):
    """Register the directives, the handler and the formulas."""
    app.add_html_math_renderer("mathml", (_formula, None), (_displayed, None))
    app.add_directive("takes", Takes)
    app.add_directive("compatibility", Compatibility)
    app.add_directive("commands", Commands)
    app.connect(
        "autodoc-process-docstring", with_defaults, priority=100
    )  # before numpydoc reads them
    app.connect("autodoc-process-signature", with_fractions)
    app.connect("doctree-read", with_whole_figures)
    return {"parallel_read_safe": True}
