"""Compiled loops: arrays and scalars in, no objects, no function arguments."""
