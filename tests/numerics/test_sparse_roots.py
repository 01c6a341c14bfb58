"""Rows of few entries whose products with themselves add up to a known, sparse precision."""

import numpy as np
import pytest

from fubini.numerics.sparse_roots import is_sparse, sparse_root


def path(n: int) -> np.ndarray:
    return 2.1 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


MATRICES = {"pairs": path(120), "signs": 4.2 * np.eye(120) - path(120), "factor": path(120) @ path(120)}


@pytest.mark.parametrize("case", MATRICES)
def test_rows_add_up(case):
    matrix = MATRICES[case]
    root = sparse_root(matrix)
    assert root is not None and is_sparse(matrix)
    assert (max(block.columns.shape[1] for block in root.blocks) == 2) == (case != "factor")
    total = np.zeros_like(matrix)
    for columns, entries in root.blocks:
        for places, numbers in zip(columns, entries, strict=True):
            row = np.zeros(len(matrix))
            np.add.at(row, places, numbers)
            total += np.outer(row, row)
    np.testing.assert_allclose(total, matrix, atol=1e-13)
    assert root.logdet == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)


def test_no_precision():
    assert sparse_root(-path(120)) is None
    assert sparse_root(path(120) + np.eye(120, k=1)) is None
