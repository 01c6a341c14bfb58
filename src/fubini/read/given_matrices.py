"""The structure of matrices that densities have as parameters, as far as reading tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fubini.algebra.build import ONE, as_product, divide, index, multiply
from fubini.algebra.node import Index, Node
from fubini.base.distant import is_unread
from fubini.families.parameters import DerivedParameter, KroneckerFactors, Matrix, ScaledNumbers
from fubini.read.derived_arrays import derived_array
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray


class GivenMatrices:
    """Parameters by name, and the reader that knows their numbers."""

    def __init__(self, given: Mapping[str, SymbolicArray], reader: Reader) -> None:
        self.given, self.reader = given, reader

    def numbers(self, name: str) -> ScaledNumbers | None:
        """Known numbers, with what else there is as a factor in front; None where its entries are unknown."""
        array = self.given.get(name)
        if array is None:
            return None
        if array.kronecker is not None:
            return None
        if array.constant is not None:
            return ScaledNumbers(ONE, np.asarray(array.constant, float))
        own = [Index(size) for size in array.shape]
        entry = array.at(*map(index, own))
        _, factors = as_product(entry)
        outside = [(base, e) for base, e in factors.items() if not base.free and not self._is_known(base)]
        front = multiply(outside)
        plain = divide(entry, front)
        if not self._is_known(plain):
            return None
        rest = SymbolicArray(array.shape, lambda *at: divide(array.at(*at), front))
        numbers = self.reader.numbers(rest)
        return None if numbers is None else ScaledNumbers(front, np.asarray(numbers, float))

    def kronecker(self, name: str, derived: DerivedParameter) -> KroneckerFactors | None:
        """The functions of K and L, of a matrix c K ⊗ L; None where it is no such product."""
        array = self.given.get(name)
        if array is None or array.kronecker is None:
            return None
        front, *factors = array.kronecker
        made = [derived_array(derived, {derived.of[0]: factor}, self.reader) for factor in factors]
        axes = [(Index(size), Index(size)) for size, _ in (part.shape for part in made)]
        left, right = (Matrix(i, j, part.at(index(i), index(j))) for part, (i, j) in zip(made, axes, strict=True))
        return KroneckerFactors(front, left, right)

    def _is_known(self, of: Node) -> bool:
        known = self.reader.known
        return all(leaf in known and not is_unread(known[leaf]) for leaf in of.leaves)

    def constant(self, numbers: np.ndarray) -> Callable[..., Node]:
        """Known numbers as entries at indices."""
        return self.reader.constant(numbers).at
