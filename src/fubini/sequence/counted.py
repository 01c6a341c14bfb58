"""Answers with a count: how many quotients were replaced on the way to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.errors import FubiniError
from fubini.show.printed_form import Block, Words
from fubini.terms.exactness import Exactness, combined
from fubini.terms.factor import Factor, Product
from fubini.terms.fields import term_field
from fubini.terms.value import Array, Value, to_array


class Counted(Product):
    """A factor, and how many quotients of Gaussians were indefinite on the way to it.

    There a state is that of the filter, and only its mass is smoothed.
    """

    replaced: tuple[Value, ...] = term_field()  # their number, where there may be some

    def __init__(self, factor: Factor, divisions: Data | None = None) -> None:
        super().__init__(factor)
        self._set(replaced=() if divisions is None else (Array(divisions),))

    @property
    def divisions(self) -> Data:
        """How many quotients were replaced on the way."""
        count = to_array(self.replaced[0]).array if self.replaced else 0
        return count if is_traced(count) or np.ndim(count) else int(count)

    @property
    def exactness(self) -> Exactness:
        """How the factor was approximated, and how many quotients were replaced."""
        mark, count = combined(self.terms), self.divisions
        return mark.with_replaced(count) if self.replaced and isinstance(count, int) else mark

    def counting(self, factor: Factor) -> Factor:
        """Another factor that was computed from this one, with the same count."""
        return Counted(factor, self.divisions) if self.replaced else factor

    def _form(self) -> Iterable[Block]:
        yield from self.terms[0]._form()
        count = self.divisions
        if isinstance(count, int) and count:
            yield Words(f"{count} quotients replaced by the filter's states")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._declared.terms:
            raise AttributeError(name)
        return getattr(self.terms[0], name)


class Smoothed(Counted):
    """The marginals after every step; `initial` is that of the state before the first, `pairs` of both together."""

    initial: Factor = term_field()

    def __init__(
        self,
        factor: Factor,
        initial: Factor,
        divisions: Data | None = None,
        pairs: Callable[[], Factor] | None = None,
    ) -> None:
        super().__init__(factor, divisions)
        self._set(initial=initial, _cached_pairs=pairs)

    @property
    def pairs(self) -> Factor:
        """p(states before and after step t | everything): expected moves are its sum over time. Made when asked for."""
        make = self.__dict__.get("_cached_pairs")
        if make is None:
            raise FubiniError(
                "pairs of states, of a smoother that was copied",
                expected="the answer of chain.smooth() itself",
                advice="ask chain.smooth().pairs inside of the function that jit, vmap or grad transforms",
            )
        return make()
