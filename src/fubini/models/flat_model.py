"""A model as one question sees it: flattened, with its precision, in index notation and as factors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import cached_property

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data, is_traced
from fubini.base.digests import bytes_of
from fubini.base.distant import is_of_jax, is_unread
from fubini.base.interpretations import current, exact
from fubini.bridge.indexed_density import IndexedDensity
from fubini.errors import FubiniError
from fubini.factors.represent import known_in, represented
from fubini.models.call_values import FlatJoint
from fubini.models.operator_sites import factors_of
from fubini.models.reading import Reading, read
from fubini.models.site_tables import tables_of
from fubini.terms.factor import Factor
from fubini.terms.value import Variable

Factors = tuple[list[Factor], list[Variable]]


class FlatModel(FlatJoint):
    """Leaves, outline and precision of a model, and its density; made once for each question, and handed on."""

    def __repr__(self) -> str:
        return f"{self.joint}"

    @property
    def is_on_jax(self) -> bool:
        """Whether some of its numbers are JAX's, so that the precision in force is that of its answers."""
        return any(map(is_of_jax, self.leaves))

    def rounded(self, factor: Factor) -> Factor:
        """A factor whose numbers are NumPy's, in its precision: what is known of data alone is exact, then rounded."""
        return factor if self.is_float64 else jax.tree_util.tree_map(jnp.asarray, factor)

    def once(self, question: Hashable, answer: Callable[[], Factor]) -> Factor:
        """An exact answer, computed once for the same model and numbers."""
        if current() is not exact or is_traced(*self.leaves) or self.tables is not None:
            return answer()
        try:
            answers, key = self.reading.answers, (question, self.is_float64)
        except FubiniError:  # it may have factors none the less
            return answer()
        if key not in answers:
            answers[key] = answer()
        return answers[key]

    def represented(self) -> AbstractContextManager:
        """The representations in force, found among the sites where all of these have finitely many values."""

        def names() -> list[str]:
            sites = [site.name for site in self.outline.sites]
            own = represented()
            return sites if self.tables is not None or own is None else [*sites, *map(str, own.by_name)]

        return known_in(names, f"{self}")

    @cached_property
    def reading(self) -> Reading:
        """The terms of its log-density in index notation."""
        reading = read(self)
        captured = {"captured arrays": list(reading.constants)} if reading.constants else {}
        self.require_agreement("a question to a model", {"model": reading.text, **captured})
        return reading

    def digest(self, *more: Data) -> str:
        """Tells its data, the arrays that it captures, and more arrays from others, on any mesh."""
        content = hashlib.blake2b(digest_size=16)
        for array in (*self.leaves, *self.reading.constants, *more):
            content.update(bytes_of(array))
        return content.hexdigest()

    @cached_property
    def in_part(self) -> FlatModel:
        """The model for what is estimated from some of the rows of streams; itself where no term needs all rows."""
        if not self.reading.reader.rows:
            return self
        model = FlatModel(self.joint)
        model.__dict__["reading"] = self.reading.in_part
        return model

    @cached_property
    def density(self) -> IndexedDensity:
        """The density over its free sites, in index notation."""
        reading = self.reading
        return IndexedDensity(reading.integrand, {}, reading.domains)  # type: ignore[arg-type]

    @cached_property
    def written(self) -> Factors | None:
        """The factors as they are written in operators and `fb.ops`, and the free variables."""
        try:
            return factors_of(self.joint, self.outline)
        except FubiniError:
            return None

    @cached_property
    def tables(self) -> Factors | None:
        """The factors, where all sites have finitely many values: then the order of sums is what matters."""
        domains = [site.domain for site in self.outline.sites if site.kind in ("random", "joint")]
        if len(domains) < 2 or not all(domain is not None and domain.is_finite for domain in domains):
            return None
        return self.written or (None if is_unread(*self.leaves) else tables_of(self.reading))
