"""Errors of arguments and options in one sentence, like all others; by itself typer prints a box of usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

#: What all of these errors are: click's class, or typer's own copy of it.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """Commands that tell what is wrong with their arguments in one sentence."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return what the words before the command say."""
        with told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, whose words are read now."""
        with told(ctx):
            return super().invoke(ctx)


@contextmanager
def told(group: Any = None) -> Iterator[None]:
    """End with one sentence and code 2 where arguments are wrong; `group` is the context of the command before them."""
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        from .screens import complain

        complain(sentence(error, group))
        raise typer.Exit(2) from None


def sentence(error: Any, group: Any = None) -> str:
    """Return what is wrong with the arguments, and what would be right."""
    context, said = error.ctx, error.format_message()
    match type(error).__name__:
        case "NoSuchOption":
            return _unknown("option", error.option_name, _options(context.command), context)
        case "MissingParameter":
            if not error.param.help:  # with typer below 0.26 and click above 8.3, arguments lose theirs
                return f"{_named(error.param)} is missing; {context.command_path} --help says what it is."
            return f"{_named(error.param)} is missing: {_explained(error.param)}"
        case "BadParameter" if error.param is not None:
            return f"{_named(error.param).split()[0]} {error.message}"
        case "BadOptionUsage":  # raised without a context
            return _misused(error, group) or said
    if command := re.search(r"No such command '(.*?)'", said):
        return _unknown("command", command[1], context.command.list_commands(context), context)
    if extra := re.search(r"unexpected extra arguments? ?(?:\(s\) )?\((.*)\)", said):
        takes = " and ".join(p.metavar for p in context.command.params if p.param_type_name == "argument")
        remedy = "; put quotes around patterns, and around names with blanks." if takes else "."
        return f"{context.command_path} takes {takes or 'options'} only, and no {extra[1]} besides{remedy}"
    return said


def _misused(error: Any, group: Any) -> str:
    """Return what is wrong with an option that lacks its value, or has one that it does not take."""
    command = group and group.command.get_command(group, group.invoked_subcommand)
    option = next((p for p in command.params if error.option_name in p.opts), None) if command else None
    if option is None:
        return ""
    if option.is_flag:
        return f"{error.option_name} is given or left out; it takes no value."
    return f"{_named(option)} lacks its value: {_explained(option)}"


def _unknown(what: str, name: str, known: list[str], context: Any) -> str:
    near = get_close_matches(name, known, n=1)
    help_ = f"{context.command_path} --help lists all."
    return f"There is no {what} {name}; " + (f"did you mean {near[0]}?" if near else help_)


def _options(command: Any) -> list[str]:
    return [name for p in command.params if p.param_type_name == "option" for name in p.opts]


def _named(parameter: Any) -> str:
    """Return what a parameter is called on the command line: --target COLUMN, or DATA."""
    if parameter.param_type_name == "argument":
        return parameter.metavar
    return " ".join((max(parameter.opts, key=len), parameter.metavar or "")).strip()


def _explained(parameter: Any) -> str:
    return parameter.help[0].lower() + parameter.help[1:]


# -- numbers -------------------------------------------------------------------------------------------


def whole(least: int | None = None, most: int | None = None) -> Callable[[Any], int]:
    """Return what reads a whole number, and refuses others in the words of :func:`sentence`."""
    wanted = "a whole number"
    if least is not None:
        wanted += f" of {least} or more" if most is None else f" from {least} to {most}"

    def read(text: Any) -> int:
        try:
            number = int(text)
            if (least is None or number >= least) and (most is None or number <= most):
                return number
        except ValueError:
            pass
        raise typer.BadParameter(f"is {text}; use {wanted}.")

    return read


def number(text: Any) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"is {text}; use a number.") from None
