"""The library in one file: factors with named axes, rules, a plan, one backward pass, and approximations that say so.

A factor is exp(log[k] + info[k]·z − ½ z·precision[k] z) of labels k and reals z; without reals it is a table.
A rule is an equation; an approximation replaces the rule of one case, and marks what it returns.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np


@dataclass(frozen=True)
class Factor:
    labels: tuple[str, ...]  # the named axes of all three arrays
    reals: tuple[str, ...]  # the entries of z
    log: np.ndarray  # [labels]
    info: np.ndarray  # [labels, reals]
    precision: np.ndarray  # [labels, reals, reals]
    marks: frozenset = frozenset()  # the approximations that took part; none: exact

    @property
    def names(self):
        return self.labels + self.reals


def table(weights, *labels):
    with np.errstate(divide="ignore"):  # log 0 = −∞
        log = np.log(np.asarray(weights, float))
    return Factor(labels, (), log, np.zeros((*log.shape, 0)), np.zeros((*log.shape, 0, 0)))


def normal(terms, offset, scale, *labels):
    """The density of Σ terms[x]·x + offset[k] ~ Normal(0, scale): of y given x with terms={"y": 1, "x": −1}."""
    offset, slope = np.asarray(offset, float), np.array(list(terms.values()), float)
    log = -0.5 * (offset / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
    precision = np.broadcast_to(np.outer(slope, slope) / scale**2, (*offset.shape, slope.size, slope.size))
    return Factor(labels, tuple(terms), log, -offset[..., None] * slope / scale**2, precision)


def align(array, labels, onto):
    """The array with its leading axes in the order of `onto`, and axes of length 1 where it has none."""
    order = [labels.index(name) for name in onto if name in labels]
    array = array.transpose(*order, *range(len(labels), array.ndim))
    return array[tuple(slice(None) if name in labels else None for name in onto)]


def multiply(f, g):
    """log = log_f + log_g,  info = info_f + info_g,  precision = precision_f + precision_g"""
    labels, reals = tuple(dict.fromkeys(f.labels + g.labels)), tuple(dict.fromkeys(f.reals + g.reals))
    log = info = precision = 0.0
    for factor in (f, g):
        place = np.eye(len(reals))[np.array([reals.index(name) for name in factor.reals], int)]
        log = log + align(factor.log, factor.labels, labels)
        info = info + align(factor.info, factor.labels, labels) @ place
        precision = precision + place.T @ align(factor.precision, factor.labels, labels) @ place
    return Factor(labels, reals, log, info, precision, f.marks | g.marks)


def product(factors):
    return reduce(multiply, factors, table(1.0))


def integrate_real(f, name):
    """∫ exp(h x − ½ p x²) dx = √(2π/p) exp(½ h²/p), where h is affine in the other reals"""
    i = f.reals.index(name)
    rest = [j for j in range(len(f.reals)) if j != i]
    p, h, across = f.precision[..., i, i], f.info[..., i], f.precision[..., rest, i]
    if np.any(p <= 0):
        raise ValueError(f"the integral over {name!r} is infinite: multiply by a prior first")
    log = f.log + 0.5 * np.log(2 * np.pi / p) + 0.5 * h**2 / p
    info = f.info[..., rest] - across * (h / p)[..., None]
    precision = f.precision[..., rest, :][..., rest] - across[..., :, None] * across[..., None, :] / p[..., None, None]
    return Factor(f.labels, tuple(f.reals[j] for j in rest), log, info, precision, f.marks)


def sum_label(f, name):
    """Σ_k f(k) of a table"""
    if f.reals:
        raise ValueError(f"the sum over {name!r} is a mixture over {f.reals}: no closed form; try interpretation=match")
    axis, rest = f.labels.index(name), tuple(label for label in f.labels if label != name)
    return Factor(rest, (), np.logaddexp.reduce(f.log, axis), f.info.sum(axis), f.precision.sum(axis), f.marks)


def match_label(f, name):
    """Σ_k w_k N(m_k, V_k) ≈ w N(m, V): w = Σ w_k,  m = Σ p_k m_k,  V = Σ p_k (V_k + (m_k − m)(m_k − m)ᵀ),  p = w_k/w"""
    if not f.reals:
        return sum_label(f, name)
    axis, rest = f.labels.index(name), tuple(label for label in f.labels if label != name)
    V = np.linalg.inv(f.precision)
    m = (V @ f.info[..., None])[..., 0]
    log_w = f.log + 0.5 * (m * f.info).sum(-1) + 0.5 * np.linalg.slogdet(2 * np.pi * V)[1]
    log = np.logaddexp.reduce(log_w, axis)
    p = np.exp(log_w - np.expand_dims(log, axis))[..., None]
    mean = (p * m).sum(axis)
    far = m - np.expand_dims(mean, axis)
    V = (p[..., None] * (V + far[..., :, None] * far[..., None, :])).sum(axis)
    precision = np.linalg.inv(V)
    info = (precision @ mean[..., None])[..., 0]
    log = log - 0.5 * (mean * info).sum(-1) - 0.5 * np.linalg.slogdet(2 * np.pi * V)[1]
    return Factor(rest, f.reals, log, info, precision, f.marks | {"projected(moment matching)"})


exact, match = sum_label, match_label  # interpretations: what the sum over a label means


def eliminate(f, names, interpretation):
    for name in sorted(names, key=f.labels.__contains__):  # reals first: labels keep a mixture's components apart
        f = interpretation(f, name) if name in f.labels else integrate_real(f, name)
    return f


# The plan, from structure alone; forwards it gives the evidence, backwards all marginals.


def plan(factors, names):
    """Steps (name, operands, result): the name with the smallest product goes next, labels beside reals go last."""
    scopes = {i: set(f.names) for i, f in enumerate(factors)}
    sizes = {name: size for f in factors for name, size in zip(f.labels, f.log.shape, strict=True)}

    def cost(name):
        scope = set().union(*(scope for scope in scopes.values() if name in scope))
        return name in sizes and not scope <= set(sizes), np.prod([sizes.get(other, 1) for other in scope]), name

    steps, left = [], set(names)
    while left:
        name = min(left, key=cost)
        operands, result = [i for i, scope in scopes.items() if name in scope], len(factors) + len(steps)
        scopes[result] = set().union(*(scopes.pop(i) for i in operands)) - {name}
        steps.append((name, operands, result))
        left.remove(name)
    return steps, list(scopes)


def marginals(factors, names, interpretation=exact):
    """The logarithm of the evidence, and the normalised marginal of each name: one pass forwards, one backwards."""
    steps, roots = plan(factors, names)
    nodes = dict(enumerate(factors))
    for name, operands, result in steps:
        nodes[result] = eliminate(product(nodes[i] for i in operands), [name], interpretation)
    evidence, answers = product(nodes[i] for i in roots), {}
    outside = {i: product(nodes[j] for j in roots if j != i) for i in roots}
    for name, operands, result in reversed(steps):
        whole = multiply(outside[result], product(nodes[i] for i in operands))
        answers[name] = eliminate(whole, set(whole.names) - {name}, interpretation)
        for i in operands:
            if i >= len(factors):  # what all other factors say to the result of an earlier step
                others = product([outside[result], *(nodes[j] for j in operands if j != i)])
                outside[i] = eliminate(others, set(others.names) - set(nodes[i].names), interpretation)
    return evidence, {name: replace(answer, log=answer.log - evidence.log) for name, answer in answers.items()}
