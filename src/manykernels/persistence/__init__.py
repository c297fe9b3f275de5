"""Model files and checkpoints: archives of plain values, which open without running code.

``models.py`` saves and loads, ``checkpoint.py`` keeps the state of an unfinished fit; both are archives
(``archive.py``) of a tree of plain values (``tree.py``). Objects are rebuilt from one table of this package's own
classes (``classes.py``): nothing is imported by a name found in a file, and nothing is unpickled.
"""

from .models import load, read_metadata, save

__all__ = ["load", "read_metadata", "save"]
