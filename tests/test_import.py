"""Importing is quick and light, and nothing compiles twice."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    ).stdout


def test_the_package_alone_imports_nothing():
    loaded = run("import sys, manykernels; print(*sys.modules)").split()
    assert not {"numpy", "scipy", "sklearn", "numba", "pyarrow"} & set(loaded)


def test_rooms_are_attributes_of_the_package():
    rooms = (
        "certificates combination estimators families features findings kernels losses machines persistence "
    )
    rooms += "predictors problem solvers streaming"
    found = run(f"import manykernels; print(all(hasattr(manykernels, room) for room in {rooms.split()}))")
    assert found.strip() == "True"


def test_import_brings_in_nothing_optional():
    # scikit-learn itself imports pandas, and pandas pyarrow, where they are installed.
    loaded = run(
        "import sys, sklearn.svm, numba; before = set(sys.modules); from manykernels import MKLClassifier; "
        "print(*set(sys.modules) - before)"
    ).split()
    for name in (
        "matplotlib",
        "dask",
        "distributed",
        "pyarrow",
        "typer",
        "rich",
        "pandas",
        "cvxpy",
    ):
        assert name not in loaded


def test_a_fit_of_rows_in_memory_needs_no_code_for_files():
    code = """
        import sys
        import numpy as np
        from manykernels import MKLRegressor
        from manykernels.kernels import Laplacian
        X = np.random.default_rng(0).random((50, 2))
        MKLRegressor([Laplacian(1.0)], solver="blockwise").fit(X, X[:, 0]).predict(X)
        print(*sys.modules)
    """
    loaded = run(code).split()
    assert "manykernels.streaming.stream" in loaded
    assert not {"manykernels.streaming.arrow", "manykernels.streaming.files"} & set(loaded)


@pytest.mark.slow  # ten imports; a clock, so it wants a quiet machine
def test_import_costs_little_more_than_scikit_learn_and_numba(tmp_path):
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    # Bytecode is kept, as an installed package's is, whatever the environment of the tests says.
    keep = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}

    def best(what):
        return min(float(run(code.format(what), **keep)) for _ in range(6))

    peer = best("sklearn.svm, numba")
    assert (
        best("manykernels.estimators") < 1.2 * peer + 0.05
    )  # 0.05 s: the clock's own noise on a busy machine


def test_a_first_fit_in_a_second_process_does_not_compile():
    code = """
        import numpy as np
        from numba.core import event
        from manykernels import MKLClassifier
        compiled = []

        class Listen(event.Listener):
            def on_start(self, e): compiled.append(e.data["dispatcher"].__name__)
            def on_end(self, e): pass

        X = np.random.default_rng(0).standard_normal((40, 3))
        K = np.stack([X @ X.T, (X @ X.T) ** 2], axis=2)
        y = np.arange(40) % 3
        with event.install_listener("numba:compile", Listen()):
            for loss in ("hinge", "max_hinge"):
                MKLClassifier(loss=loss).fit(X, y)
                MKLClassifier("precomputed", loss=loss).fit(K, y)
        print(len(compiled), *compiled)
        """
    run(code)
    assert run(code).split()[0] == "0"
