"""Row tiles on threads, and BLAS meanwhile."""

import threading

import numpy as np
from threadpoolctl import threadpool_info

from manykernels._util.threads import map_in_threads, one_blas_thread


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_results_come_in_order(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert map_in_threads(lambda i: i * i, range(50)) == [i * i for i in range(50)]


def test_blas_is_given_back_whoever_leaves_first():
    before = blas_threads()
    entered, may_leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def use(i):
        with one_blas_thread():
            entered[i].set()
            may_leave[i].wait()

    users = [threading.Thread(target=use, args=(i,)) for i in range(2)]
    for user, event in zip(users, entered, strict=True):
        user.start()
        event.wait()
    assert all(n == 1 for n in blas_threads())
    for user, event in zip(users, may_leave, strict=True):
        event.set()
        user.join()
    assert blas_threads() == before


def test_products_inside_give_what_they_give_outside(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    A = np.random.default_rng(0).normal(size=(60, 60))
    for product in map_in_threads(lambda i: A @ A, range(4)):
        np.testing.assert_allclose(product, A @ A)
