"""Tables as people have them: numbers, text, categories, flags, dates and gaps, made into one matrix of numbers.

:class:`Columns` learns from the training rows how, and does the same to every other row. It lies in `columns.py`;
`reading.py` makes one kind of column out of the many kinds of tables, `quantities.py` and `categories.py` say what is
learned from a column of numbers and from one of levels, and `tally.py` counts with weights, so that a weight equals a
repetition, and in an order of its own, so that the order of rows is of no account.
"""

from .columns import Columns

__all__ = ["Columns"]
