"""Collapsed samplers as one writes them by hand, from the formulae of the literature."""

import math

import numpy as np


def draw(logs: list[float], uniform: float) -> int:
    """The first candidate at which the sum of weights exceeds a share of all."""
    weights = np.exp(np.array(logs) - max(logs))
    return int(np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right"))


def mixture(s, y, m, scale, uniforms):
    """p(k) ∝ (n_k + 1) N(s_u; mean of class k, its variance + 1)"""
    y = y.copy()
    n, total = np.bincount(y, minlength=m).astype(float), np.bincount(y, s, minlength=m)
    for row in uniforms:
        for u, uniform in enumerate(row):
            n[y[u]] -= 1
            total[y[u]] -= s[u]
            precision = n + 1 / scale**2
            mean, variance = total / precision, 1 / precision + 1
            logs = np.log(n + 1) - 0.5 * np.log(variance) - 0.5 * (s[u] - mean) ** 2 / variance
            y[u] = draw(list(logs), uniform)
            n[y[u]] += 1
            total[y[u]] += s[u]
    return y


def topics(doc, word, z, sizes, uniforms):
    """p(k) ∝ (n_dk + 1) (n_kv + 1) / (n_k + V)"""
    z, (d, v, m) = z.copy(), sizes
    by_doc, by_word = np.zeros((d, m)), np.zeros((m, v))
    for u, k in enumerate(z):
        by_doc[doc[u], k] += 1
        by_word[k, word[u]] += 1
    for row in uniforms:
        for u, uniform in enumerate(row):
            by_doc[doc[u], z[u]] -= 1
            by_word[z[u], word[u]] -= 1
            p = (by_doc[doc[u]] + 1) * (by_word[:, word[u]] + 1) / (by_word.sum(1) + v)
            z[u] = draw(list(np.log(p)), uniform)
            by_doc[doc[u], z[u]] += 1
            by_word[z[u], word[u]] += 1
    return z


def naive_bayes(doc, word, z, sizes, uniforms):
    """p(k) ∝ (n_k + 1) Π_v Γ(n_kv + 1 + c_v)/Γ(n_kv + 1) · Γ(n_k· + V)/Γ(n_k· + V + L)"""
    z, (d, v, m) = z.copy(), sizes
    counts = np.zeros((d, v))
    np.add.at(counts, (doc, word), 1)
    for row in uniforms:
        for u, uniform in enumerate(row):
            logs = []
            for k in range(m):
                others = np.flatnonzero((z == k) & (np.arange(d) != u))
                by_word, whole = counts[others].sum(0), counts[others].sum()
                value = math.log(len(others) + 1) + math.lgamma(whole + v) - math.lgamma(whole + v + counts[u].sum())
                value += sum(
                    math.lgamma(b + 1 + c) - math.lgamma(b + 1) for b, c in zip(by_word, counts[u], strict=True) if c
                )
                logs.append(value)
            z[u] = draw(logs, uniform)
    return z
