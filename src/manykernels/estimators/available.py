"""Methods that are there for some parameters only, with a sentence that says why where they are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def available_unless(why_not: Callable[[Any], str | None]) -> Callable[[Method], Method]:
    """Make a method available unless ``why_not(object)`` returns a sentence, which the AttributeError then says.

    scikit-learn's ``available_if`` only says that there is no such attribute.
    """

    def decorate(method: Method) -> Method:
        return cast(Method, _Unless(method, why_not))

    return decorate


class _Unless:
    def __init__(self, method: Callable, why_not: Callable[[Any], str | None]):
        self.method, self.why_not = method, why_not
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, instance, owner=None):
        if instance is not None:
            self._check(instance)
            return MethodType(self.method, instance)

        @wraps(self.method)  # tools that look at the class, scikit-learn's own among them, want a function
        def method(instance, *args, **kwargs):
            self._check(instance)
            return self.method(instance, *args, **kwargs)

        return method

    def _check(self, instance) -> None:
        try:
            reason = self.why_not(instance)
        except ValueError as error:  # a parameter makes no sense: hasattr must be able to answer all the same
            reason = str(error)
        if reason is not None:
            raise AttributeError(reason)
