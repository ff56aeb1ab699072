from __future__ import annotations

import numpy as np
from threadpoolctl import ThreadpoolController

from asyncgraph._exec.blas import blas


def threads() -> list[int]:
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library.num_threads for library in libraries]


def test_the_number_of_blas_threads_is_set_while_it_is_claimed_and_restored_after_the_last_claim() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = threads()
    first, second = object(), object()
    blas.claim(first, 1)
    blas.claim(second, 2)
    while_claimed = threads()
    blas.release(first)
    blas.release(first)
    while_one_is_left = threads()
    blas.release(second)
    assert while_claimed == while_one_is_left == [1] * len(before)
    assert threads() == before
