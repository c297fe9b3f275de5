"""Tables as people have them: numbers, text, categories, flags, dates and gaps, made into one matrix of numbers.

:class:`Columns` learns from the training rows how, and does the same to every other row. It lies in `columns.py`;
`reading.py` makes one kind of column out of the many kinds of tables (:func:`open_table`), `quantities.py` and
`categories.py` say what is learned from columns of numbers and from one of levels. The former counts with weights, so
that a weight equals a repetition, and in an order of its own, so that the order of rows is of no account. Several
sources per row are :class:`Views`, and :class:`ViewColumns` does for them what `Columns` does for one (`views.py`).
"""

from .columns import Columns, Origin
from .reading import open_table
from .views import ViewColumns, Views, as_views

__all__ = ["Columns", "Origin", "ViewColumns", "Views", "as_views", "open_table"]
