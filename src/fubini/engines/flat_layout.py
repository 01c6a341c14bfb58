"""The layout of a plan over tables, compiled: every table a stretch of one array, every step a nest of loops.

All steps are of one kind, c[kept] = Σ a[…] · b[…], written as extents of loops with a stride for each of c, a and b (0
where a table lacks the variable): the steps of the plan, the adjoints of its slots, and the marginals. There is no
division. A table is dense, the variable that goes last innermost. Variables that stay, such as the cases of a batch,
are innermost of all.

`fubini.engines.code_cache.load` compiles this file when it is first needed: nothing else imports it.
"""

# pyright: reportMissingParameterType=false
import numpy as np
from numba import njit

INNER: dict = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called from compiled code alone
MATRIX_WORK = 20_000.0  # multiply-adds from which a step is packed into products of matrices,
REUSE = 2.0  # if these are so many for each number moved
MATRIX_LEAST = 1_000.0  # and so many in each product
LONG = 64  # an innermost loop gains nothing from being longer
SHARED, ROW, COLUMN, SUMMED, OTHER = 0, 1, 2, 3, 4  # variables by the tables that have them
PACKED = ((SHARED, ROW, SUMMED), (SHARED, COLUMN, SUMMED), (SHARED, ROW, COLUMN))


@njit(**INNER)
def sort_by_place(names, count, place):
    """Sort variables by their places: few, and nearly sorted."""
    for i in range(1, count):
        name, k = names[i], i
        while k > 0 and place[names[k - 1]] > place[name]:
            names[k] = names[k - 1]
            k -= 1
        names[k] = name


@njit(**INNER)
def grown(array, needed):
    """The array, or one of twice the length with its numbers."""
    if needed <= len(array):
        return array
    new = np.empty(max(needed, 2 * len(array)), np.int64)
    for k in range(len(array)):
        new[k] = array[k]
    return new


@njit(**INNER)
def append_table(starts, members, strides, offsets, cells, slot, names, count, sizes, top):
    """Write down a dense table over the names at the end of the array, the last of them fastest; the new end."""
    begin, total = starts[slot], 1
    for k in range(count - 1, -1, -1):
        members[begin + k], strides[begin + k] = names[k], total
        total *= sizes[names[k]]
    starts[slot + 1], offsets[slot], cells[slot] = begin + count, top, total
    return top + total


@njit(**INNER)
def add_name(names, count, name):
    """Append a name that is not there yet; the number of names."""
    for k in range(count):
        if names[k] == name:
            return count
    names[count] = name
    return count + 1


@njit(**INNER)
def stride_of(starts, members, strides, slot, name):
    """The stride of a variable in a table, −1 where the table lacks it."""
    for k in range(starts[slot], starts[slot + 1]):
        if members[k] == name:
            return strides[k]
    return -1


@njit(**INNER)
def all_names(starts, members, c, a, b, place, names):
    """The variables of three tables, in the order of their places; their number."""
    count = 0
    for slot in (c, a, b):
        for k in range(starts[slot], starts[slot + 1]):
            count = add_name(names, count, members[k])
    sort_by_place(names, count, place)
    return count


@njit(**INNER)
def kind_of(starts, members, strides, c, a, b, name):
    """Where a variable stands in c = Σ a · b as a product of matrices."""
    in_c = stride_of(starts, members, strides, c, name) >= 0
    in_a = stride_of(starts, members, strides, a, name) >= 0
    in_b = stride_of(starts, members, strides, b, name) >= 0
    if in_c and in_a and in_b:
        return SHARED
    if in_c and in_a:
        return ROW
    if in_c and in_b:
        return COLUMN
    return SUMMED if in_a and in_b else OTHER


@njit(**INNER)
def write_loops(starts, members, strides, c, a, b, names, count, sizes, first, extents, jumps):
    """Write the loops of c = Σ a · b from place `first` on, adjacent ones merged where the strides allow; their end."""
    end = first
    for k in range(count):
        name, size = names[k], sizes[names[k]]
        if size == 1:
            continue
        x = max(stride_of(starts, members, strides, c, name), 0)
        y = max(stride_of(starts, members, strides, a, name), 0)
        z = max(stride_of(starts, members, strides, b, name), 0)
        last = 3 * (end - 1)
        if end > first and jumps[last] == x * size and jumps[last + 1] == y * size and jumps[last + 2] == z * size:
            extents[end - 1] *= size
        else:
            extents[end] = size
            end += 1
        last = 3 * (end - 1)
        jumps[last], jumps[last + 1], jumps[last + 2] = x, y, z
    while end < first + 2:
        extents[end] = 1
        jumps[3 * end], jumps[3 * end + 1], jumps[3 * end + 2] = 0, 0, 0
        end += 1
    return end


@njit(**INNER)
def move_inwards(extents, jumps, k, to):
    """Move a loop inwards, those between one outwards."""
    extent, x, y, z = extents[k], jumps[3 * k], jumps[3 * k + 1], jumps[3 * k + 2]
    while k < to:
        extents[k] = extents[k + 1]
        for j in range(3):
            jumps[3 * k + j] = jumps[3 * k + 3 + j]
        k += 1
    extents[to] = extent
    jumps[3 * to], jumps[3 * to + 1], jumps[3 * to + 2] = x, y, z


@njit(**INNER)
def arrange_loops(extents, jumps, first, end):
    """A long loop of unit strides innermost, a sum before it; true where a and b are to change places."""
    best, inner = -1, first
    for k in range(first, end):
        is_unit = max(jumps[3 * k], jumps[3 * k + 1], jumps[3 * k + 2]) <= 1
        score = min(extents[k], LONG) * ((8 if jumps[3 * k] else 6) if is_unit else 1)
        if score > best:
            best, inner = score, k
    move_inwards(extents, jumps, inner, end - 1)
    best, second = -1, first
    for k in range(first, end - 1):
        score = extents[k] * (1 if jumps[3 * k] else 1000)
        if score > best:
            best, second = score, k
    move_inwards(extents, jumps, second, end - 2)
    swaps = jumps[3 * end - 2] < jumps[3 * end - 1]  # of a and b, a is the one that moves in the innermost loop
    if swaps:
        for k in range(first, end):
            jumps[3 * k + 1], jumps[3 * k + 2] = jumps[3 * k + 2], jumps[3 * k + 1]
    return swaps


@njit(**INNER)
def choose_providers(tables, scope_starts, scopes, cells, provider):
    """The slot that each marginal is read off: one whose adjoint is needed anyway, else the smallest."""
    for slot in range(len(scope_starts) - 1):
        for k in range(scope_starts[slot], scope_starts[slot + 1]):
            best = provider[scopes[k]]
            is_alike, is_smaller = (best < tables) == (slot < tables), best < 0 or cells[slot] < cells[best]
            if best < 0 or (best < tables) > (slot < tables) or (is_alike and is_smaller):
                provider[scopes[k]] = slot


@njit(**INNER)
def mark_needed(tables, steps, provider, wanted, needs):
    """The slots whose adjoints the marginals need: those they are read off, and everything made from these."""
    for name in wanted:
        needs[provider[name] if name < len(provider) else name - len(provider)] = True
    for step in range(len(steps)):
        if needs[steps[step, 0]] or (steps[step, 1] >= 0 and needs[steps[step, 1]]):
            needs[tables + step] = True


@njit(cache=True, nogil=True)
def lay_out(starts, members, strides, offsets, sizes, place, steps, scope_starts, scopes, kept, wanted, top, packs):
    """The program of a plan: where every table lies, and the steps on them.

    The given tables come first, then those of the plan's steps, then the number 1 at offset 0, then adjoints and
    marginals. `kept` says which variables are never summed; `wanted` lists those whose marginals are asked for, and
    after the variables come the given tables, whose marginals are of their variables together; `top` is the end of the
    given tables, and `packs` allows products of matrices.
    """
    tables, count, zero = len(offsets), len(steps), np.int64(0)
    slots, unit = tables + count, tables + count
    most = slots + 1 + 2 * slots + len(wanted)
    room = 4 * most  # with what is packed
    longest = np.int64(len(sizes))
    all_starts, all_offsets, all_cells = np.zeros(room + 1, np.int64), np.zeros(room, np.int64), np.ones(room, np.int64)
    all_members, all_strides = np.empty(8 * room, np.int64), np.empty(8 * room, np.int64)
    triples, matrices = np.zeros((room, 3), np.int64), np.zeros((room, 4), np.int64)
    names, mine = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    for k in range(len(members)):
        all_members[k], all_strides[k] = members[k], strides[k]
    for slot in range(tables):
        all_starts[slot + 1], all_offsets[slot] = starts[slot + 1], offsets[slot]
        for k in range(starts[slot], starts[slot + 1]):
            all_cells[slot] *= sizes[members[k]]
    provider, needs = np.full(longest, -1, np.int64), np.zeros(slots, np.bool_)
    adjoint, ends = np.full(slots, unit, np.int64), np.empty(len(wanted), np.int64)
    begin = forward = zero
    # Tables of the steps, the number 1, adjoints of the operands from the last step to the first, marginals.
    total, made = slots + 1 + 2 * count + len(wanted), zero
    slot = tables - 1
    for task in range(total - tables):
        several = zero
        a = b = unit
        if task < count:
            slot = tables + task
            for k in range(scope_starts[slot], scope_starts[slot + 1]):
                names[several] = scopes[k]
                several += 1
            a = steps[task, 0]
            b = steps[task, 1] if steps[task, 1] >= 0 else unit
        elif task == count:
            slot = unit
            all_offsets[unit], all_starts[unit + 1] = 0, all_starts[unit]
            forward = made
            if len(wanted):
                choose_providers(tables, scope_starts, scopes, all_cells, provider)
                mark_needed(tables, steps, provider, wanted, needs)
            continue
        elif task <= 3 * count:
            place_of = task - count - 1
            step, side = count - 1 - place_of // 2, place_of % 2
            operand, other = steps[step, side], steps[step, 1 - side]
            if operand < 0 or not needs[operand]:
                continue
            slot += 1
            for k in range(scope_starts[operand], scope_starts[operand + 1]):
                names[several] = scopes[k]
                several += 1
            a, b = other if other >= 0 else unit, adjoint[tables + step]
            adjoint[operand] = slot
        else:
            name = wanted[task - 3 * count - 1]
            slot += 1
            if task == 3 * count + 1:
                begin = top
            ends[task - 3 * count - 1] = slot
            if name < longest:
                names[0], several = name, zero + 1
                a = provider[name]
            else:
                a = name - longest
                for k in range(scope_starts[a], scope_starts[a + 1]):
                    names[several] = scopes[k]
                    several += 1
            b = adjoint[a]
        if task > count:  # what is never summed stays
            for one in (a, b):
                for k in range(all_starts[one], all_starts[one + 1]):
                    if kept[all_members[k]]:
                        several = add_name(names, several, all_members[k])
        sort_by_place(names, several, place)
        all_members = grown(all_members, all_starts[slot] + several)
        all_strides = grown(all_strides, all_starts[slot] + several)
        top = append_table(
            all_starts, all_members, all_strides, all_offsets, all_cells, slot, names, several, sizes, top
        )
        triples[made, 0], triples[made, 1], triples[made, 2] = slot, a, b
        made += 1
    finish = top
    # Products of large tables as products of matrices, with the tables that are packed for them.
    final, counts = np.zeros((4 * made + 1, 3), np.int64), np.ones(5)
    done, last = zero, slot
    for k in range(made):
        c, a, b = triples[k, 0], triples[k, 1], triples[k, 2]
        if k == forward:
            forward = -done - 1  # the steps of the plan end here
        is_large = packs and float(all_cells[a]) * float(all_cells[b]) > MATRIX_WORK
        several, rows, columns, summed = zero, 0.0, 0.0, 0.0
        if is_large:
            several = all_names(all_starts, all_members, c, a, b, place, names)
            for j in range(5):
                counts[j] = 1.0
            for j in range(several):
                counts[kind_of(all_starts, all_members, all_strides, c, a, b, names[j])] *= sizes[names[j]]
            rows, columns, summed = counts[ROW], counts[COLUMN], counts[SUMMED]
            work, moved = rows * columns * summed, rows * summed + summed * columns + rows * columns
            is_large = work * counts[SHARED] > MATRIX_WORK and work > MATRIX_LEAST
            is_large = is_large and work > REUSE * moved and counts[OTHER] == 1.0
        if not is_large:
            final[done, 0], final[done, 1], final[done, 2] = c, a, b
            done += 1
            continue
        for kind in PACKED:
            chosen = zero
            for group in kind:
                for j in range(several):
                    if kind_of(all_starts, all_members, all_strides, c, a, b, names[j]) == group:
                        mine[chosen] = names[j]
                        chosen += 1
            last += 1
            all_members = grown(all_members, all_starts[last] + chosen)
            all_strides = grown(all_strides, all_starts[last] + chosen)
            top = append_table(
                all_starts, all_members, all_strides, all_offsets, all_cells, last, mine, chosen, sizes, top
            )
        final[done, 0], final[done, 1], final[done, 2] = last - 2, a, unit
        final[done + 1, 0], final[done + 1, 1], final[done + 1, 2] = last - 1, b, unit
        final[done + 2, 0], final[done + 2, 1], final[done + 2, 2] = last, last - 2, last - 1
        final[done + 3, 0], final[done + 3, 1], final[done + 3, 2] = c, last, unit
        matrices[done + 2, 0], matrices[done + 2, 1] = np.int64(counts[SHARED]), np.int64(rows)
        matrices[done + 2, 2], matrices[done + 2, 3] = np.int64(columns), np.int64(summed)
        done += 4
    forward = -forward - 1 if forward < 0 else done
    # The loops of all that is not a product of matrices.
    firsts, extents, jumps = np.zeros(done + 1, np.int64), np.empty(6 * done + 2, np.int64), np.empty(8, np.int64)
    for k in range(done):
        first = firsts[k]
        firsts[k + 1] = first
        if matrices[k, 0]:
            continue
        c, a, b = final[k, 0], final[k, 1], final[k, 2]
        several = all_names(all_starts, all_members, c, a, b, place, names)
        extents, jumps = grown(extents, first + several + 2), grown(jumps, 3 * (first + several + 2))
        end = write_loops(all_starts, all_members, all_strides, c, a, b, names, several, sizes, first, extents, jumps)
        if arrange_loops(extents, jumps, first, end):
            final[k, 1], final[k, 2] = b, a
        firsts[k + 1] = end
    loops = firsts[done]
    unsigned, across = np.empty(loops, np.uint64), np.empty((3, loops), np.uint64)
    for k in range(loops):
        unsigned[k] = extents[k]
        for j in range(3):
            across[j, k] = jumps[3 * k + j]
    program = (final[:done], firsts, unsigned, across, matrices[:done])
    last += 1
    where = (all_starts[: last + 1], all_members, all_strides, all_offsets[:last], all_cells[:last])
    return program, where, ends, np.array([unit, forward, begin, finish, top])
