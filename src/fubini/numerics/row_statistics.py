"""Sums over rows that come chunk by chunk: of numbers, and of squares about their means.

With weights w_j and columns a_j:  n = Σ w_j,  m = Σ w_j a_j / n,  S = Σ w_j (a_j − m)(a_j − m)ᵀ.  Two parts join by
n = n₁ + n₂,  m = (n₁ m₁ + n₂ m₂) / n,  S = S₁ + S₂ + (n₁ n₂ / n)(m₂ − m₁)(m₂ − m₁)ᵀ  (Chan, Golub and LeVeque, 1983).
Squares of all rows are kept as a triangle R with RᵀR = S, those of groups as matrices S.
"""

from __future__ import annotations

import numpy as np

ALMOST_ORTHOGONAL = 0.1


class RowTotal:
    """Σ over rows of an array of numbers, with the rounding of each addition made good (Kahan)."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self._lost: np.ndarray | float = 0.0

    def add(self, part: np.ndarray) -> None:
        """Add the sum over more rows."""
        part = part - self._lost
        new = self.total + part
        with np.errstate(invalid="ignore"):  # ∞ − ∞, of which nothing is lost
            self._lost = np.where(np.isfinite(new), (new - self.total) - part, 0.0)
        self.total = new

    @property
    def parts(self) -> list[np.ndarray]:
        """What another sum is given to join this one."""
        return [np.asarray(self.total, float), np.asarray(self._lost, float)]

    def join(self, total: np.ndarray, lost: np.ndarray) -> None:
        """Add the sum over other rows."""
        self.add(total)
        self.add(-lost)


class Squares:
    """n, m and R of rows of columns; `is_centred` where squares are about the means, else m = 0 and RᵀR = Σ w a aᵀ."""

    def __init__(self, width: int, is_centred: bool) -> None:
        self.count, self.mean = 0.0, np.zeros(width)
        self.triangle, self.is_centred = np.zeros((width, width)), is_centred

    def add(self, columns: np.ndarray, weights: np.ndarray | None) -> None:
        """Add rows [column, row] with weights that are not negative."""
        count = float(columns.shape[1] if weights is None else weights.sum())
        if count == 0.0:
            return
        mean = self.mean
        if self.is_centred:
            mean = columns.mean(1) if weights is None else columns @ weights / count
            columns = columns - mean[:, None]
        if weights is not None:
            columns = columns * np.sqrt(weights)
        self.join(count, mean, _square(columns))

    @property
    def parts(self) -> list[np.ndarray]:
        """What other squares are given to join these."""
        return [np.asarray(self.count), self.mean, self.triangle]

    def join(self, count: float | np.ndarray, mean: np.ndarray, square: np.ndarray) -> None:
        """Add other rows, by their n, m and R."""
        count = float(count)
        if count == 0.0:
            return
        step = mean - self.mean
        between = np.sqrt(self.count * count / (self.count + count)) * step[:, None]
        self.mean = self.mean + step * (count / (self.count + count))
        self.count += count
        self.triangle = _triangle(np.concatenate([self.triangle.T, between, square.T], axis=1))


class GroupedSquares:
    """n, m and S of rows of columns, in each of many groups."""

    def __init__(self, groups: int, width: int, is_centred: bool) -> None:
        self.count, self.mean = np.zeros(groups), np.zeros((groups, width))
        self.squares, self.is_centred = np.zeros((groups, width, width)), is_centred

    def add(self, columns: np.ndarray, weights: np.ndarray | None, group: np.ndarray) -> None:
        """Add rows [column, row]; those of group −1 are in none."""
        groups, width = self.mean.shape
        inside = group >= 0
        if not inside.all():
            columns, group = columns[:, inside], group[inside]
            weights = None if weights is None else weights[inside]
        count, mean = np.bincount(group, weights, groups).astype(float), self.mean
        if self.is_centred:
            safe = np.where(count == 0, 1.0, count)[:, None]
            mean = np.stack([self._sum(column, weights, group) for column in columns], axis=1) / safe
            columns = columns - mean.T[:, group]
        squares = np.zeros_like(self.squares)
        for k in range(width):
            for other in range(k, width):
                squares[:, k, other] = squares[:, other, k] = self._sum(columns[k] * columns[other], weights, group)
        self.join(count, mean, squares)

    @property
    def parts(self) -> list[np.ndarray]:
        """What other squares are given to join these."""
        return [self.count, self.mean, self.squares]

    def join(self, count: np.ndarray, mean: np.ndarray, squares: np.ndarray) -> None:
        """Add other rows, by their n, m and S."""
        if self.is_centred:
            both = np.where(self.count + count == 0, 1.0, self.count + count)
            step = np.where(count[:, None] == 0, 0.0, mean - self.mean)
            share = self.count * count / both
            self.squares += share[:, None, None] * step[:, :, None] * step[:, None, :]
            self.mean += step * (count / both)[:, None]
        self.count += count
        self.squares += squares

    def _sum(self, values: np.ndarray, weights: np.ndarray | None, group: np.ndarray) -> np.ndarray:
        return np.bincount(group, values if weights is None else values * weights, len(self.count))

    @property
    def roots(self) -> np.ndarray:
        """R with RᵀR = S in each group: of one column √S, of more √λ Vᵀ with S = V λ Vᵀ."""
        if self.squares.shape[-1] <= 1:
            return np.sqrt(self.squares)
        values, vectors = np.linalg.eigh(self.squares)
        return np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(vectors, -1, -2)


def _square(columns: np.ndarray) -> np.ndarray:
    """R with RᵀR = A Aᵀ of many rows A [column, row], as few rows.

    By a Cholesky factor, twice, so that no digits are lost (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, 2015); where
    columns are nearly dependent, by reflections.
    """
    width, count = columns.shape
    if width == 1:
        return np.sqrt(np.einsum("cr,dr->cd", columns, columns))
    if count < 4 * width:
        return columns.T
    sizes = np.sqrt(np.einsum("cr,cr->c", columns, columns))
    is_empty = sizes == 0
    scaled = columns / np.where(is_empty, 1.0, sizes)[:, None]
    try:
        first = np.linalg.cholesky(scaled @ scaled.T + np.diag(1.0 * is_empty))
        orthogonal = np.linalg.inv(first) @ scaled
        product = orthogonal @ orthogonal.T + np.diag(1.0 * is_empty)
        if np.max(np.abs(product - np.eye(width))) < ALMOST_ORTHOGONAL:
            return (first @ np.linalg.cholesky(product)).T * sizes
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.qr(columns.T, mode="r"))


def _triangle(columns: np.ndarray) -> np.ndarray:
    """A square R with RᵀR = A Aᵀ of a few rows A [column, row], the largest first, so that small ones keep digits."""
    width = len(columns)
    if width == 1:
        return np.sqrt(np.einsum("cr,dr->cd", columns, columns))
    largest_first = np.argsort(-np.max(np.abs(columns), axis=0), kind="stable")
    return np.asarray(np.linalg.qr(columns[:, largest_first].T, mode="r"))[:width]
