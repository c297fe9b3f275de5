"""Settings shared by all tests."""

from hypothesis import settings

# The same examples in every run, and no deadline: a first call may wait for the compiler.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
