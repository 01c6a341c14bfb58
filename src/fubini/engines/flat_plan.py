"""Plans over tables, compiled: the orders of `eliminate.order` and the steps of `eliminate.tree` on arrays of integers.

Variables are numbered in the order that breaks ties, tables by slots: the given ones first, then one for each step. The
steps are those that the planner in Python finds, at a thirtieth of its time; a test holds them side by side.

`fubini.engines.code_cache.load` compiles this file when it is first needed: nothing else imports it.
"""

# pyright: reportMissingParameterType=false
import math

import numpy as np
from numba import njit

INNER: dict = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called from compiled code alone

FILL, WEIGHTED_FILL, SIZE = 0, 1, 2
EXACT = 2.0**53  # counts beyond are rounded, and no longer those of Python
CANDIDATES = 8  # slots among which the cheapest pair is looked for


@njit(**INNER)
def first_bit(word):
    """The position of the lowest one of a word that is not 0."""
    low = word & (~word + np.uint64(1))
    position = 0
    if low & np.uint64(0xFFFFFFFF00000000):
        position += 32
    if low & np.uint64(0xFFFF0000FFFF0000):
        position += 16
    if low & np.uint64(0xFF00FF00FF00FF00):
        position += 8
    if low & np.uint64(0xF0F0F0F0F0F0F0F0):
        position += 4
    if low & np.uint64(0xCCCCCCCCCCCCCCCC):
        position += 2
    if low & np.uint64(0xAAAAAAAAAAAAAAAA):
        position += 1
    return position


@njit(**INNER)
def members_of(mask, room):
    """The positions of the ones of a mask, in order, into `room`; their number."""
    count = 0
    for place in range(len(mask)):
        word = mask[place]
        while word:
            room[count] = 64 * place + first_bit(word)
            count += 1
            word &= word - np.uint64(1)
    return count


@njit(**INNER)
def has(mask, node):
    """Whether a node is in a mask."""
    return (mask[node >> 6] >> np.uint64(node & 63)) & np.uint64(1) != 0


@njit(**INNER)
def put(mask, node):
    """Put a node into a mask."""
    mask[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@njit(**INNER)
def drop(mask, node):
    """Take a node out of a mask."""
    mask[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))


@njit(**INNER)
def perturbation(attempt, node, time):
    """A factor between 0.8 and 1.25, the same for the same three numbers: `eliminate.order.perturbation`."""
    z = np.uint64(attempt) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(node) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(time) * np.uint64(0x94D049BB133111EB)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return 0.8 + 0.45 * (np.float64(z >> np.uint64(11)) * 2.0**-53)


@njit(**INNER)
def is_before(one, two, keys):
    """Node `one` goes before node `two`: the lower score, then the lower second score, then the lower number."""
    if two < 0:
        return one >= 0
    if one < 0:
        return False
    if keys[one, 0] != keys[two, 0]:
        return keys[one, 0] < keys[two, 0]
    if keys[one, 1] != keys[two, 1]:
        return keys[one, 1] < keys[two, 1]
    return one < two


@njit(**INNER)
def climb(tree, leaf, keys):
    """Replay the matches of a leaf of the tournament."""
    node = leaf >> 1
    while node:
        one, two = tree[2 * node], tree[2 * node + 1]
        tree[node] = one if is_before(one, two, keys) else two
        node >>= 1


@njit(**INNER)
def greedy_order(logs, weights, near, is_summed, kind, attempt, order):
    """Write the order that takes the lowest score each time; its number of variables and the entries that it makes.

    `near` are the neighbours as masks, which are used up. A node's fill is the weight of the edges that its elimination
    would add; its bits are the binary logarithm of the table that it would make.
    """
    count, words = near.shape
    weighted = kind == WEIGHTED_FILL
    fill, bits, times = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
    around, inner, touched = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(words, np.uint64)
    mask, rest = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    for node in range(count):
        total, several = 0.0, members_of(near[node], around)
        for k in range(several):
            total += logs[around[k]]
            missing = 0.0
            for other in range(k + 1, several):
                if not has(near[around[k]], around[other]):
                    missing += weights[around[other]] if weighted else 1.0
            fill[node] += missing * (weights[around[k]] if weighted else 1.0)
        bits[node] = logs[node] + total
    leaves = 1
    while leaves < count:
        leaves *= 2
    tree, keys = np.full(2 * leaves, -1, np.int64), np.zeros((count, 2))
    waiting = 0
    for node in range(count):
        if is_summed[node]:
            waiting += 1
            tree[leaves + node] = node
            set_key(keys, node, kind, fill, bits, attempt, times)
    for node in range(leaves - 1, 0, -1):
        one, two = tree[2 * node], tree[2 * node + 1]
        tree[node] = one if is_before(one, two, keys) else two
    entries = 0.0
    for place in range(waiting):
        node = tree[1]
        order[place] = node
        tree[leaves + node] = -1
        climb(tree, leaves + node, keys)
        entries += 2.0 ** min(bits[node], 1000.0)
        for w in range(words):
            mask[w] = touched[w] = near[node, w]
        several = members_of(mask, around)
        if fill[node] != 0:
            for k in range(several):
                first = around[k]
                for w in range(words):
                    rest[w] = mask[w] & ~near[first, w]
                lacking = members_of(rest, inner)
                for j in range(lacking):
                    second = inner[j]
                    if second <= first:
                        continue
                    one = weights[first] if weighted else 1.0
                    two = weights[second] if weighted else 1.0
                    alone, other = 0.0, 0.0
                    for w in range(words):
                        common = near[first, w] & near[second, w]
                        touched[w] |= common
                        while common:
                            fill[64 * w + first_bit(common)] -= one * two
                            common &= common - np.uint64(1)
                        alone += weight_of(near[first, w] & ~near[second, w], w, weights, weighted)
                        other += weight_of(near[second, w] & ~near[first, w], w, weights, weighted)
                    fill[first] += two * alone
                    fill[second] += one * other
                    put(near[first], second)
                    put(near[second], first)
                    bits[first] += logs[second]
                    bits[second] += logs[first]
        own = weights[node] if weighted else 1.0
        for k in range(several):
            other = around[k]
            outside = 0.0
            for w in range(words):
                word = near[other, w] & ~mask[w]
                if w == node >> 6:
                    word &= ~(np.uint64(1) << np.uint64(node & 63))
                outside += weight_of(word, w, weights, weighted)
            fill[other] -= own * outside
            drop(near[other], node)
            bits[other] -= logs[node]
        drop(touched, node)
        several = members_of(touched, around)
        for k in range(several):
            other = around[k]
            if tree[leaves + other] >= 0:
                set_key(keys, other, kind, fill, bits, attempt, times)
                climb(tree, leaves + other, keys)
    return waiting, entries


@njit(**INNER)
def weight_of(word, place, weights, weighted):
    """The weight of the nodes of a word of a mask."""
    total = 0.0
    while word:
        total += weights[64 * place + first_bit(word)] if weighted else 1.0
        word &= word - np.uint64(1)
    return total


@njit(**INNER)
def set_key(keys, node, kind, fill, bits, attempt, times):
    """The scores by which a node is chosen, the first perturbed after the attempts with each score as it is."""
    one, two = (bits[node], fill[node]) if kind == SIZE else (fill[node], bits[node])
    if attempt >= 3:
        one *= perturbation(attempt, node, times[node])
        times[node] += 1
    keys[node, 0], keys[node, 1] = one, two


@njit(**INNER)
def neighbours(starts, members, count):
    """The interaction graph as masks."""
    near = np.zeros((count, (count + 63) // 64), np.uint64)
    for table in range(len(starts) - 1):
        for i in range(starts[table], starts[table + 1]):
            for j in range(starts[table], starts[table + 1]):
                if i != j:
                    put(near[members[i]], members[j])
    return near


@njit(**INNER)
def union(one, two, room):
    """The variables of two sorted scopes, sorted, into `room`; their number."""
    i = j = count = 0
    while i < len(one) or j < len(two):
        if j == len(two) or (i < len(one) and one[i] < two[j]):
            room[count] = one[i]
            i += 1
        else:
            if i < len(one) and one[i] == two[j]:
                i += 1
            room[count] = two[j]
            j += 1
        count += 1
    return count


@njit(**INNER)
def union_size(one, two, sizes):
    """The cells of a table over the variables of two sorted scopes."""
    i = j = 0
    cells = 1.0
    while i < len(one) or j < len(two):
        if j == len(two) or (i < len(one) and one[i] < two[j]):
            cells *= sizes[one[i]]
            i += 1
        else:
            if i < len(one) and one[i] == two[j]:
                i += 1
            cells *= sizes[two[j]]
            j += 1
    return cells


@njit(**INNER)
def cheapest_pair(slots, scope_starts, scopes, cells, sizes):
    """The pair of slots whose union is smallest; among many, only the smaller ones are looked at."""
    if len(slots) == 2:
        return slots[0], slots[1]
    small = np.empty(CANDIDATES, np.int64)
    count = 0
    for slot in slots:
        k = min(count, CANDIDATES)
        while k > 0 and (cells[slot], slot) < (cells[small[k - 1]], small[k - 1]):
            if k < CANDIDATES:
                small[k] = small[k - 1]
            k -= 1
        if k < CANDIDATES:
            small[k] = slot
            count = min(count + 1, CANDIDATES)
    best, first, second = np.inf, small[0], small[1]
    for i in range(count):
        one = scopes[scope_starts[small[i]] : scope_starts[small[i] + 1]]
        for j in range(i + 1, count):
            two = scopes[scope_starts[small[j]] : scope_starts[small[j] + 1]]
            cost = union_size(one, two, sizes)
            if cost < best:
                best, first, second = cost, small[i], small[j]
    return first, second


@njit(**INNER)
def contract(starts, members, sizes, is_summed, order):
    """The steps of an order: operands (the second −1 where there is none), scopes of all slots, and the work.

    Every table with a variable is multiplied in pairs, the cheapest first, and what no other table has is summed out.
    """
    tables, count = len(starts) - 1, len(sizes)
    most = 2 * tables + 2 * len(order) + 2
    operands = np.empty((most, 2), np.int64)
    scope_starts = np.zeros(tables + most + 1, np.int64)
    scopes = np.empty(max(64, 4 * len(members)), np.int64)
    cells = np.ones(tables + most)
    for k in range(len(members)):
        scopes[k] = members[k]
    live = np.zeros(tables + most, np.bool_)
    for table in range(tables):
        scope_starts[table + 1], live[table] = starts[table + 1], True
    # The live slots of each variable that is summed: their number never grows.
    room, using_count = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    for member in members:
        room[member + 1] += 1
    for v in range(count):
        room[v + 1] += room[v]
    using = np.empty(len(members), np.int64)
    for table in range(tables):
        for k in range(starts[table], starts[table + 1]):
            v = members[k]
            cells[table] *= sizes[v]
            using[room[v] + using_count[v]] = table
            using_count[v] += 1
    both, steps, work = np.empty(count, np.int64), np.int64(0), 0.0
    for place in range(len(order)):
        name = order[place]
        while using_count[name]:
            if using_count[name] == 1:
                a, b = using[room[name]], -1
            else:
                bucket = using[room[name] : room[name] + using_count[name]]
                a, b = cheapest_pair(bucket, scope_starts, scopes, cells, sizes)
            one = scopes[scope_starts[a] : scope_starts[a + 1]]
            two = scopes[scope_starts[b] : scope_starts[b + 1]] if b >= 0 else scopes[:0]
            several = union(one, two, both)
            made, top = tables + steps, scope_starts[tables + steps]
            if top + several > len(scopes):
                grown = np.empty(2 * (top + several), np.int64)
                for k in range(top):
                    grown[k] = scopes[k]
                scopes = grown
            cost = size = 1.0
            for k in range(several):
                v = both[k]
                cost *= sizes[v]
                left = 0
                for at in range(room[v], room[v] + using_count[v]):
                    if using[at] != a and using[at] != b:
                        using[room[v] + left] = using[at]
                        left += 1
                if left or not is_summed[v]:
                    using[room[v] + left] = made
                    left += 1
                    scopes[top] = v
                    top += 1
                    size *= sizes[v]
                using_count[v] = left
            operands[steps, 0], operands[steps, 1] = a, b
            cells[made] = size
            scope_starts[made + 1] = top
            live[a], live[made] = False, True
            if b >= 0:
                live[b] = False
            work += cost
            steps += 1
    return operands, scope_starts, scopes, live, steps, work


@njit(**INNER)
def merge_closed(operands, scope_starts, live, steps, tables):
    """Append the steps that multiply the tables without variables; all steps, and the results: open ones, then that."""
    slots, count = tables + steps, 0
    closed, results = np.empty(2 * slots, np.int64), np.empty(slots, np.int64)
    end = 0
    for slot in range(slots):
        if live[slot] and scope_starts[slot + 1] == scope_starts[slot]:
            closed[count] = slot
            count += 1
        elif live[slot]:
            results[end] = slot
            end += 1
    more = max(0, count - 1)
    for k in range(more):
        operands[steps + k, 0], operands[steps + k, 1] = closed[2 * k], closed[2 * k + 1]
        scope_starts[slots + 1 + k] = scope_starts[slots]
        closed[count + k] = slots + k
    if count:
        results[end] = closed[2 * more]
        end += 1
    return steps + more, results[:end]


@njit(cache=True, nogil=True)
def plan(starts, members, sizes, is_summed, scope_time, share, speed, patience, wide):
    """The number of steps, their operands, the scopes of all slots, the results and an order.

    The number is −1 where counts are too large for exact arithmetic.
    """
    count, tables = len(sizes), len(starts) - 1
    logs, weights = np.array([math.log2(size) for size in sizes]), sizes.astype(np.float64)
    near = neighbours(starts, members, count)
    order, other = np.empty(count, np.int64), np.empty(count, np.int64)
    several, entries = greedy_order(logs, weights, near.copy(), is_summed, np.int64(FILL), np.int64(0), order)
    best = contract(starts, members, sizes, is_summed, order[:several])
    attempt_time = 0.0
    for table in range(tables):
        width = starts[table + 1] - starts[table]
        attempt_time += 1.0 if width <= wide else (width / 8) ** 3
    attempt_time *= scope_time
    if tables > 1 and several and not share * entries / speed < attempt_time:
        attempt = np.int64(0)
        while attempt_time * (attempt if attempt >= 3 else 1) < min(share * best[5] / speed, patience):
            attempt += 1
            greedy_order(logs, weights, near.copy(), is_summed, attempt % 3, attempt, other)
            found = contract(starts, members, sizes, is_summed, other[:several])
            if found[5] < best[5]:
                best = found
                for k in range(several):
                    order[k] = other[k]
    operands, scope_starts, scopes, live, steps, work = best
    steps, results = merge_closed(operands, scope_starts, live, steps, tables)
    if not work < EXACT:
        steps = np.int64(-1)
    return steps, operands, scope_starts, scopes, results, order[:several]
