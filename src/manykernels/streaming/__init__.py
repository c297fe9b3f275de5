"""Rows that do not fit in memory: where they come from, and predictions for them.

``fit`` takes a path, a pyarrow Dataset, a memory map or an iterable of batches in place of X, with a solver that
streams; :func:`open_source` is for choosing columns. Predictions come batch by batch, or go straight to a file.

``sources.py`` says what a source is and has those in memory, ``files.py`` and ``arrow.py`` those in files (``text.py``
looks at text before it is parsed, ``dialect.py`` tells how it is written, ``meaning.py`` what it means, ``formats.py``
reads Excel, NumPy and svmlight), ``partitions.py`` those of dask collections, ``columns.py`` what columns may hold,
``views.py`` sources made of others,
``opening.py`` finds the source for what a user passes. A fit looks at the targets first (``survey.py``: labels, means,
a sample); ``stream.py`` makes of a source what a solver is given, rows held out and shuffled batches; ``cluster.py`` is
rows in blocks, here or on a Dask cluster, for solvers that need sums over them alone; ``predictions.py`` predicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy import looked_up

if TYPE_CHECKING:
    from .arrow import TableWriter
    from .columns import MissingColumn, NewColumn, NotNumbers
    from .opening import open_source
    from .predictions import predict_batches, predict_to
    from .sources import Source
    from .stream import Stream
    from .views import Part, Standardised

__all__ = [
    "MissingColumn",
    "NewColumn",
    "NotNumbers",
    "Part",
    "Source",
    "Standardised",
    "Stream",
    "TableWriter",
    "open_source",
    "predict_batches",
    "predict_to",
]

#: Where the names live; they are imported when first asked for: a fit of rows in memory reads no files.
_ROOM = {
    "arrow": "TableWriter",
    "columns": "MissingColumn NewColumn NotNumbers missing_column predict_rows",
    "opening": "is_source open_source",
    "predictions": "bind_for check_probabilities predict_batches predict_to prediction_columns refuse_input views_of",
    "sources": "CHUNK_ROWS Source",
    "stream": "Stream",
    "views": "Part Standardised",
}
_HOMES = {name: home for home, names in _ROOM.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return looked_up(name, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
