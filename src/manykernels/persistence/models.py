"""Models in files: saved, and opened without running code."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from .archive import MODEL, reading, write_archive
from .classes import name_of
from .tree import Encoder, require
from .trial import check_model

if TYPE_CHECKING:
    from ..estimators import AlignedKernel, MKLClassifier, MKLRegressor


def save(model, path, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that :func:`load` opens without running code.

    The file appears whole or not at all: an error leaves what was there before. A ``random_state`` that is a
    generator is written as None; everything else comes back as it was, and predictions to the last bit.

    Parameters
    ----------
    model : fitted estimator
    path : path of the file, overwritten if it exists
    metadata : dict, optional
        Anything to keep beside the model, see :func:`read_metadata`: numbers, text, arrays, and lists and
        dicts of these.

    Raises
    ------
    NotFittedError
        If there is nothing to write yet.
    ValueError
        If the model holds what a file cannot, a Python function used as a kernel above all.
    """
    check_is_fitted(model)
    encode = Encoder()
    manifest = {
        "package": __version__,
        "metadata": encode(dict(metadata or {}), "metadata"),
        "model": encode(model, "model"),
    }
    write_archive(path, MODEL, manifest, encode.arrays)


def load(path: str | PathLike[str]) -> MKLClassifier | MKLRegressor | AlignedKernel:
    """Open a model file written by ``model.save``.

    Nothing in the file is executed or imported, and no pickle is read.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model file, is truncated or altered, or was made by a newer version.
    """
    with reading(path) as (manifest, decode):
        decode(manifest["metadata"])  # shared objects are counted from here
        model = decode(manifest["model"])
        kind, name = name_of(type(model)) or ("", "")
        require(kind == "object" and name.startswith("estimators."), "no model")
        check_is_fitted(model)
        check_model(model)
        return model


def read_metadata(path) -> dict[str, Any]:
    """Return what was given to :func:`save` as `metadata`, without reading the model."""
    with reading(path) as (manifest, decode):
        metadata = decode(manifest["metadata"])
        require(isinstance(metadata, dict), "no metadata")
        return metadata
