"""Tables as people have them: numbers, text, categories, flags, dates and gaps, made into one matrix of numbers.

:class:`Columns` learns from the training rows how, and does the same to every other row. It lies in `columns.py`;
`reading.py` makes one kind of column out of the many kinds of tables (:func:`open_table`), `quantities.py` and
`categories.py` say what is learned from columns of numbers and from one of levels. The former counts with weights, so
that a weight equals a repetition, and in an order of its own, so that the order of rows is of no account.
"""

from .columns import Columns
from .reading import open_table

__all__ = ["Columns", "open_table"]
