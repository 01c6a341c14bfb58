"""Counts of the cells of tables in rows of codes, compiled.

`fubini.engines.code_cache.load` compiles this file when it is first needed: nothing else imports it.
"""

# pyright: reportMissingParameterType=false
import numpy as np
from numba import njit

BLOCK = 2048  # rows whose cells are found at once


@njit(cache=True, nogil=True)
def count_rows(codes, members, strides, counts):
    """Add one to the cell of each row: codes[variable, row], the variables of a table with their strides in it."""
    rows = codes.shape[1]
    cells = np.empty(BLOCK, np.uint32)
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        own = cells[:size]
        own[:] = np.uint32(0)
        for k in range(len(members)):
            column, stride = codes[members[k], start : start + size], np.uint32(strides[k])
            for row in range(size):
                own[row] += np.uint32(column[row]) * stride
        for row in range(size):
            counts[own[row]] += 1
