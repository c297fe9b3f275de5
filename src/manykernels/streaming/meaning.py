"""What text in a column means: numbers with marks between thousands, dates in the orders that people write them.

pyarrow reads plain numbers and ISO dates. What it leaves as text is looked at column by column: it becomes numbers,
dates or flags, if every value is one. A table that is read chunk by chunk has no such look, and its text stays text;
blanks around it are taken off either way, as pyarrow does with numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._util.text import warn

#: What stands for a missing value among numbers. In a column of text it is a word like others.
MISSING = (
    "-",
    "--",
    ".",
    "?",
    "*",
    "na",
    "n.a.",
    "none",
    "missing",
    "unknown",
    "nil",
    "null",
    "#n/a",
    "#div/0!",
    "#value!",
    "#ref!",
    "#num!",
    "#name?",
    "#null!",
)
#: A column of at least so many different values, of which at most this share are words, was meant to be numbers.
FEWEST_NUMBERS, FEW_WORDS = 20, 0.1
#: Signs that may stand beside every number of a column.
SIGNS = "%$€£¥"
#: Marks between thousands: a point or a comma, whichever is not the decimal mark, blanks and an apostrophe.
GROUPS = " \u00a0\u202f'’_"
#: Orders of dates, and of times behind them. The first that all values of a column have counts.
DATES = (
    "%Y-%m-%d",  # pyarrow's own, but for blanks around it
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d %b %Y",
    "%b %d, %Y",
)
TIMES = ("", " %H:%M", " %H:%M:%S")
#: Orders that cannot be told apart where no day is above 12.
EITHER = {"%d/%m/%Y": "%m/%d/%Y", "%d-%m-%Y": "%m-%d-%Y"}
#: Words for flags, in small letters.
FLAGS = ("true", "false")
#: A quote behind a blank opens nothing to pyarrow, which leaves it in the value.
QUOTED_LATE = r'^\s+"([^"]*)"\s*$'


def plain_name(name: str) -> str:
    """Return the name of a column without the blanks that were written around it."""
    return re.sub(QUOTED_LATE, r"\1", name).strip()


def trimmed(table: Any, pa: Any) -> Any:
    """Return a pyarrow Table or batch whose text has no blanks around it; what is left of a gap is missing."""
    import pyarrow.compute as pc

    nulls, columns = null_words(), []
    for values, field in zip(table.columns, table.schema, strict=True):
        if is_text(field.type, pa):
            values = pc.utf8_trim_whitespace(pc.replace_substring_regex(values, QUOTED_LATE, r"\1"))
            absent = pc.is_in(values, value_set=pa.array(nulls, type=field.type))
            values = pc.if_else(absent, pa.scalar(None, field.type), values)
        columns.append(values)
    return type(table).from_arrays(columns, schema=table.schema)


def null_words() -> list[str]:
    """Return what stands for a missing value in columns of all kinds."""
    from pyarrow.csv import ConvertOptions

    return [*ConvertOptions().null_values, "?", "None"]


def is_text(kind: Any, pa: Any) -> bool:
    """Whether a type of pyarrow is text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def understood(table: Any, decimal: str, pa: Any) -> Any:
    """Return a pyarrow Table in which columns of text that mean numbers, dates or flags are that."""
    for j, field in enumerate(table.schema):
        if (
            is_text(field.type, pa)
            and (found := _meant(table.column(j), field.name, decimal, pa)) is not None
        ):
            table = table.set_column(j, field.name, found)
    return table


def _meant(values: Any, name: str, decimal: str, pa: Any) -> Any | None:
    """Return what the text of a column means; None for text that is text."""
    other = "," if decimal == "." else "."  # the marks of another country
    readings: tuple[Callable[[], Any | None], ...] = (
        lambda: numbers_in(values, decimal, pa),
        lambda: numbers_in(values, other, pa),
        lambda: amounts_in(values, decimal, pa),
        lambda: amounts_in(values, other, pa),
        lambda: dates_in(values, name, pa),
        lambda: flags_in(values, pa),
        lambda: numbers_among_words(values, name, decimal, pa),
    )
    return next((found for reading in readings if (found := reading()) is not None), None)


def amounts_in(values: Any, decimal: str, pa: Any) -> Any | None:
    """Return text as numbers where one sign of money or per cent stands beside every one, None elsewhere."""
    import pyarrow.compute as pc

    text = _without_gaps(values, pa)
    known = pc.drop_null(text)
    sign = next((sign for sign in SIGNS if len(known) and sign in known[0].as_py()), None)
    if sign is None or not pc.all(pc.equal(pc.count_substring(known, sign), 1)).as_py():
        return None
    at_an_end = pc.or_(pc.match_substring_regex(known, rf"^[+-]?[{sign}]"), pc.ends_with(known, sign))
    return (
        numbers_in(pc.replace_substring(text, sign, ""), decimal, pa) if pc.all(at_an_end).as_py() else None
    )


def numbers_among_words(values: Any, name: str, decimal: str, pa: Any) -> Any | None:
    """Return text as numbers where a few values are none: a line of totals, say, or what a program writes for an error.

    What is no number is missing, with a warning. None where the column has few different numbers, as codes do, or words
    that are not few.
    """
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(values)
    some = pc.unique(pc.drop_null(text))
    words = some.filter(pc.invert(pc.match_substring_regex(some, _number(decimal))))
    if len(some) < FEWEST_NUMBERS or not 0 < len(words) <= FEW_WORDS * len(some):
        return None
    which = " and ".join(repr(word) for word in words.to_pylist()[:2])
    warn(
        f"Column {name!r} holds numbers but for values such as {which}, which are taken for missing; write words into "
        "a column of their own if they mean something."
    )
    return numbers_in(pc.if_else(pc.is_in(text, value_set=words), None, text), decimal, pa)


def _number(decimal: str) -> str:
    """Return the pattern of a number with a decimal mark, and marks between thousands or none."""
    groups = ("," if decimal == "." else r"\.") + GROUPS
    mark = r"\." if decimal == "." else ","
    whole = rf"(\d+|\d{{1,3}}([{groups}]\d{{3}})+)"
    return rf"^[+-]?({whole}({mark}\d*)?|{mark}\d+)([eE][+-]?\d+)?$"


def _without_gaps(values: Any, pa: Any) -> Any:
    """Return text without blanks around it; what stands for a missing value among numbers is missing."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(values)
    absent = pc.is_in(pc.utf8_lower(text), value_set=pa.array([*MISSING, ""]))
    return pc.if_else(pc.fill_null(absent, True), None, text)


def numbers_in(values: Any, decimal: str, pa: Any) -> Any | None:
    """Return text as numbers, None if a value is none; words for what is missing are missing."""
    import pyarrow.compute as pc

    text = _without_gaps(values, pa)
    if text.null_count == len(text):
        return None
    groups = ("," if decimal == "." else r"\.") + GROUPS
    if not pc.all(pc.match_substring_regex(text, _number(decimal))).as_py():
        return None
    text = pc.replace_substring_regex(text, rf"[{groups}]", "")
    return pc.cast(pc.replace_substring(text, ",", "."), pa.float64())


def dates_in(values: Any, name: str, pa: Any) -> Any | None:
    """Return text as dates, None if a value is none in every order that is known."""
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(values)
    known = len(text) - text.null_count
    if not known or not pc.any(pc.match_substring_regex(text, r"^\d{1,4}[./ -]|^[A-Za-z]{3} ")).as_py():
        return None
    for time in TIMES:
        for date in DATES:
            found = _parsed(text, date + time, pc)
            if len(found) - found.null_count == known:
                other = EITHER.get(date)
                if other and _parsed(text, other + time, pc).null_count == found.null_count:
                    warn(
                        f"Column {name!r} holds dates that may begin with the day or the month; the day is assumed."
                    )
                return found
    return None


def flags_in(values: Any, pa: Any) -> Any | None:
    """Return text as flags, None if a value is none: pyarrow reads them itself, but for blanks around them."""
    import pyarrow.compute as pc

    small = pc.utf8_lower(values)
    known = pc.drop_null(small)
    if not len(known) or not pc.all(pc.is_in(known, value_set=pa.array(FLAGS, type=known.type))).as_py():
        return None
    return pc.equal(small, FLAGS[0])


def _parsed(text: Any, order: str, pc: Any) -> Any:
    return pc.strptime(text, format=order, unit="s", error_is_null=True)
