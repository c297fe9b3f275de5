"""scikit-learn's callbacks (``sklearn.callback``, from version 1.9 on): a progress bar, say, without one of our own.

An estimator gets ``set_callbacks`` where scikit-learn has it. A fit is a task, and every step of its solver, which
``on_iteration`` sees too, is a task within it; a callback that returns True at the end of one stops the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..solvers.log import OnIteration, Step

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # an earlier version

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """No callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[misc]
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FollowedFit", "with_callbacks"]


class FollowedFit:
    """A fit, as scikit-learn's callbacks see it.

    Parameters
    ----------
    estimator : estimator about to be fitted
    X, y, sample_weight : what it is fitted on
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any):
        self.estimator = estimator
        self.data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        # How many steps there will be is not known: they may go over several C.
        self.context = estimator._init_callback_context(max_subtasks=None)
        self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def following(self, on_iteration: OnIteration | None) -> OnIteration:
        """Return what is called after every step: the callbacks, and what the user gave."""

        def step_done(step: Step) -> bool:
            task = self.context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            stop = task.call_on_fit_task_end(estimator=self.estimator, **self.data)
            return bool(on_iteration is not None and on_iteration(step)) or stop

        return step_done

    def end(self) -> None:
        """Say that the estimator is fitted."""
        self.context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes={}, **self.data)
