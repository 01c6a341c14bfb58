"""Samplers written by hand for Numba, the same algorithms: log space for the mixture, counts for the others."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(error_model="numpy")
def mixture(t, z, n, s, uniforms, scale):
    """One sweep: p(k) ∝ (n_k + 1) N(t_u; mean and variance of class k)"""
    m = n.size
    w = np.empty(m)
    prior = 1.0 / (scale * scale)
    for u in range(t.size):
        n[z[u]] -= 1.0
        s[z[u]] -= t[u]
        top = -math.inf
        for k in range(m):
            precision = n[k] + prior
            variance = 1.0 + 1.0 / precision
            apart = t[u] - s[k] / precision
            w[k] = math.log(n[k] + 1.0) - 0.5 * math.log(variance) - 0.5 * apart * apart / variance
            top = max(top, w[k])
        total = 0.0
        for k in range(m):
            total += math.exp(w[k] - top)
            w[k] = total
        level, k = uniforms[u] * total, 0
        while k < m - 1 and w[k] <= level:
            k += 1
        z[u] = k
        n[k] += 1.0
        s[k] += t[u]


@njit(error_model="numpy")
def topics(doc, word, z, by_doc, by_word, whole, uniforms):
    """One sweep: p(k) ∝ (n_dk + 1) (n_vk + 1) / (n_k + V), with counts [d, k] and [v, k]"""
    m, v = whole.size, by_word.shape[0]
    w = np.empty(m)
    for u in range(z.size):
        d, x, k = doc[u], word[u], z[u]
        by_doc[d, k] -= 1.0
        by_word[x, k] -= 1.0
        whole[k] -= 1.0
        total = 0.0
        for k in range(m):
            total += (by_doc[d, k] + 1.0) * (by_word[x, k] + 1.0) / (whole[k] + v)
            w[k] = total
        level, k = uniforms[u] * total, 0
        while k < m - 1 and w[k] <= level:
            k += 1
        z[u] = k
        by_doc[d, k] += 1.0
        by_word[x, k] += 1.0
        whole[k] += 1.0


@njit(error_model="numpy")
def naive_bayes(items, first, place, value, length, z, counts, whole, n, uniforms):
    """Some documents: p(k) ∝ (n_k + 1) Π_v Γ-ratios of the counts [v, k], by rows of words"""
    m, v = n.size, counts.shape[0]
    w = np.empty(m)
    for t in range(items.size):
        u = items[t]
        k = z[u]
        n[k] -= 1.0
        whole[k] -= length[u]
        for p in range(first[u], first[u + 1]):
            counts[place[p], k] -= value[p]
        for k in range(m):
            w[k] = math.log(n[k] + 1.0) + math.lgamma(whole[k] + v) - math.lgamma(whole[k] + v + length[u])
        for p in range(first[u], first[u + 1]):
            for k in range(m):
                for c in range(int(value[p])):
                    w[k] += math.log(counts[place[p], k] + 1.0 + c)
        top = w.max()
        total = 0.0
        for k in range(m):
            total += math.exp(w[k] - top)
            w[k] = total
        level, k = uniforms[t] * total, 0
        while k < m - 1 and w[k] <= level:
            k += 1
        z[u] = k
        n[k] += 1.0
        whole[k] += length[u]
        for p in range(first[u], first[u + 1]):
            counts[place[p], k] += value[p]
