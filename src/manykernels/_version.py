"""The version, where anything can read it."""

__version__ = "0.1.0"
