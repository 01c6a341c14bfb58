"""Runs the program of a plan over tables, compiled: loops of multiply-adds on one array, in the order of the steps.

Every table t stands for m[t] · 2^shift[t], and the binary logarithms of its positive numbers lie between low[t] and
high[t]. Bounds grow loose from step to step; where they leave the range they are read off the numbers anew, and a table
that still does not fit stops the run.

`fubini.engines.code_cache.load` compiles this file when it is first needed: nothing else imports it.
"""

# pyright: reportMissingParameterType=false
import math

import numpy as np
from numba import njit

INNER: dict = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called from compiled code alone

U = np.uint64  # unsigned indices need no test for negative ones
ZERO, ONE = U(0), U(1)
SUMS = {"reassoc", "contract", "nsz"}
MOST_LOOPS = 64
RANGE = 1000.0  # binary logarithms of numbers that stay normal


@njit(**INNER)
def advance(at, extents, jumps, first, last, c, a, b):
    """The odometer over loops first:last; false after the last position."""
    for d in range(last - 1, first - 1, -1):
        at[d - first] += ONE
        c, a, b = c + jumps[0, d], a + jumps[1, d], b + jumps[2, d]
        if at[d - first] < extents[d]:
            return True, c, a, b
        n = extents[d]
        c, a, b, at[d - first] = c - n * jumps[0, d], a - n * jumps[1, d], b - n * jumps[2, d], ZERO
    return False, c, a, b


@njit(**INNER, fastmath=SUMS, inline="always")
def add_products(m, c, a, b, n1, c1, a1, b1, n0, c0, a0, b0):
    """The two innermost loops of c += a · b, by the strides of the innermost."""
    for _ in range(n1):
        if c0 == ZERO:
            total = 0.0
            for i in range(n0):
                total += m[a + i * a0] * m[b + i * b0]
            m[c] += total
        elif c0 == ONE and a0 == ONE and b0 == ONE:
            for i in range(n0):
                m[c + i] += m[a + i] * m[b + i]
        elif c0 == ONE and a0 == ONE and b0 == ZERO:
            times = m[b]
            for i in range(n0):
                m[c + i] += m[a + i] * times
        else:
            for i in range(n0):
                m[c + i * c0] += m[a + i * a0] * m[b + i * b0]
        c, a, b = c + c1, a + a1, b + b1


@njit(**INNER)
def take_greatest(m, c, a, b, n1, c1, a1, b1, n0, c0, a0, b0):
    """The two innermost loops of c = max(c, a · b)."""
    for _ in range(n1):
        for i in range(n0):
            value = m[a + i * a0] * m[b + i * b0]
            if value > m[c + i * c0]:
                m[c + i * c0] = value
        c, a, b = c + c1, a + a1, b + b1


@njit(**INNER)
def read_bounds(m, slot, offsets, cells, low, high, shift, is_given):
    """The bounds of a table from its numbers; one that is not given is rescaled so that its greatest is near 1."""
    least, most = np.inf, 0.0
    begin, end = offsets[slot], offsets[slot] + cells[slot]
    for i in range(begin, end):
        value = m[i]
        most = max(most, value)
        if 0.0 < value < least:
            least = value
    if most == 0.0:
        low[slot] = high[slot] = 0.0
        return
    power = 0
    if not is_given:
        power = math.frexp(most)[1]
        half = power // 2
        one, two = 2.0**-half, 2.0 ** (half - power)  # in two factors: one alone may overflow
        for i in range(begin, end):
            m[i] = m[i] * one * two
        shift[slot] += power
    low[slot], high[slot] = math.log2(least) - power, math.log2(most) - power


@njit(cache=True, nogil=True)
def run(program, offsets, cells, low, high, shift, given, m, first, last, is_sum):
    """Steps first:last of a program on the array m; −1, or the step whose tables leave the range."""
    operands, firsts, extents, jumps, matrices = program
    at = np.zeros(MOST_LOOPS, np.uint64)
    for k in range(first, last):
        C, A, B = operands[k, 0], operands[k, 1], operands[k, 2]
        q = firsts[k + 1] - 2
        terms = 1.0
        if matrices[k, 0]:
            terms = float(matrices[k, 3])
        else:
            for d in range(firsts[k], q + 2):
                if jumps[0, d] == ZERO:
                    terms *= float(extents[d])
        more_bits = math.log2(terms)
        if low[A] + low[B] < -RANGE or high[A] + high[B] + more_bits > RANGE:
            read_bounds(m, A, offsets, cells, low, high, shift, given > A)
            read_bounds(m, B, offsets, cells, low, high, shift, given > B)
            if low[A] + low[B] < -RANGE or high[A] + high[B] + more_bits > RANGE:
                return k
        low[C], high[C], shift[C] = low[A] + low[B], high[A] + high[B] + more_bits, shift[A] + shift[B]
        c, a, b = U(offsets[C]), U(offsets[A]), U(offsets[B])
        if matrices[k, 0]:
            count, rows, columns, summed = matrices[k, 0], matrices[k, 1], matrices[k, 2], matrices[k, 3]
            x = m[offsets[A] : offsets[A] + cells[A]].reshape(count, rows, summed)
            y = m[offsets[B] : offsets[B] + cells[B]].reshape(count, columns, summed)
            z = m[offsets[C] : offsets[C] + cells[C]].reshape(count, rows, columns)
            for r in range(count):
                np.dot(x[r], y[r].T, z[r])
            continue
        for i in range(U(cells[C])):
            m[c + i] = 0.0
        n1, c1, a1, b1 = extents[q], jumps[0, q], jumps[1, q], jumps[2, q]
        n0, c0, a0, b0 = extents[q + 1], jumps[0, q + 1], jumps[1, q + 1], jumps[2, q + 1]
        more = True
        while more:
            if is_sum:
                add_products(m, c, a, b, n1, c1, a1, b1, n0, c0, a0, b0)
            else:
                take_greatest(m, c, a, b, n1, c1, a1, b1, n0, c0, a0, b0)
            more, c, a, b = advance(at, extents, jumps, firsts[k], q, c, a, b)
    return -1


@njit(cache=True, nogil=True)
def normalize(m, offsets, cells, sizes, ends):
    """Divide each marginal by its sum over its own variable, the outermost; false where a sum is 0."""
    for k in range(len(ends)):
        slot, size = ends[k], sizes[k]
        table = m[offsets[slot] : offsets[slot] + cells[slot]].reshape(size, cells[slot] // size)
        for column in range(table.shape[1]):
            total = 0.0
            for row in range(size):
                total += table[row, column]
            if not total > 0.0:
                return False
            for row in range(size):
                table[row, column] /= total
    return True


@njit(cache=True, nogil=True)
def choose(steps, gone_starts, gone, starts, members, strides, offsets, sizes, m, uniforms, chosen):
    """Values of the eliminated variables, one row for each draw: from the last step to the first, given those above.

    With uniform numbers, one for each step and draw, they are drawn; without, the greatest weight is taken, and the
    first of equals. False where no value has a positive weight.
    """
    draws, is_drawn = len(chosen), uniforms.shape[0] > 0
    most = 1
    for step in range(len(steps)):
        cells = 1
        for k in range(gone_starts[step], gone_starts[step + 1]):
            cells *= sizes[gone[k]]
        most = max(most, cells)
    weights, used = np.empty(most), 0
    width = 0
    for step in range(len(steps)):
        width = max(width, gone_starts[step + 1] - gone_starts[step])
    ones, twos, at = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width, np.int64)
    for step in range(len(steps) - 1, -1, -1):
        first, count = gone_starts[step], gone_starts[step + 1] - gone_starts[step]
        if not count:
            continue
        A, B = steps[step, 0], steps[step, 1]
        ones[:] = 0
        twos[:] = 0
        cells = 1
        for k in range(count):
            cells *= sizes[gone[first + k]]
        for draw in range(draws):
            a, b = offsets[A], offsets[B]
            for side in range(2):
                slot = A if side == 0 else B
                for k in range(starts[slot], starts[slot + 1]):
                    own = -1
                    for j in range(count):
                        if gone[first + j] == members[k]:
                            own = j
                    if own < 0:
                        jump = strides[k] * chosen[draw, members[k]]
                        if side == 0:
                            a += jump
                        else:
                            b += jump
                    elif side == 0:
                        ones[own] = strides[k]
                    else:
                        twos[own] = strides[k]
            at[:] = 0
            total, best, place, last = 0.0, 0.0, -1, -1
            for cell in range(cells):
                value = m[a] * m[b]
                weights[cell] = value
                total += value
                if value > 0.0:
                    last = cell
                if value > best:
                    best, place = value, cell
                for k in range(count - 1, -1, -1):
                    at[k] += 1
                    a += ones[k]
                    b += twos[k]
                    if at[k] < sizes[gone[first + k]]:
                        break
                    a -= at[k] * ones[k]
                    b -= at[k] * twos[k]
                    at[k] = 0
            if place < 0:
                return False
            if is_drawn:
                goal, below, place = uniforms[used, draw] * total, 0.0, 0
                for cell in range(cells):
                    below += weights[cell]
                    if below <= goal:
                        place = cell + 1
                    else:
                        break
                place = min(place, last)
            for k in range(count - 1, -1, -1):
                size = sizes[gone[first + k]]
                chosen[draw, gone[first + k]] = place % size
                place //= size
        used += 1
    return True


@njit(cache=True, nogil=True)
def gather(m, sources, starts, shape, strides, offsets, width, positions, observed_starts, observed, observed_strides):
    """The tables with observed variables at the cases of a batch, the case innermost."""
    at = np.zeros(MOST_LOOPS, np.int64)
    for table in range(len(sources)):
        first, last = starts[table], starts[table + 1]
        for case in range(width):
            begin = sources[table]
            for k in range(observed_starts[table], observed_starts[table + 1]):
                begin += observed_strides[k] * positions[observed[k], case]
            at[:] = 0
            target, more = offsets[table] + case, True
            while more:
                m[target] = m[begin]
                target += width
                more = False
                for d in range(last - 1, first - 1, -1):
                    at[d - first] += 1
                    begin += strides[d]
                    if at[d - first] < shape[d]:
                        more = True
                        break
                    begin -= at[d - first] * strides[d]
                    at[d - first] = 0
