"""Questions to a list of factors: eliminate, all marginals, arg max, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, require
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import current, exact, interpret
from fubini.base.names import Bound, Name, as_names
from fubini.base.semirings import Semiring, max_product, same_pair, sum_product
from fubini.eliminate.array_variables import find_plan_with_arrays, plated_value
from fubini.eliminate.backward import descend, normalized, run_marginals
from fubini.eliminate.engine import engine_of, on_engine
from fubini.eliminate.flat_tables import choose_from_tables, eliminate_tables, table_marginals
from fubini.eliminate.forward import run_forward
from fubini.eliminate.linear_systems import draws_of_system, marginals_of_system, mode_of_system, total_of_system
from fubini.eliminate.plan import Plan
from fubini.eliminate.plates import Problem
from fubini.eliminate.prepare import (
    Factors,
    Scopes,
    covering_terms,
    embedded_term,
    known_names,
    one_or_other,
    prepared,
    problem_of,
    split_terms,
    together,
)
from fubini.engines.choice import asked_engine
from fubini.errors import DataError, DomainError, FubiniError, Intractable, MemoryLimit, NoRule
from fubini.factors.no_mass import no_mass, nothing_to_choose
from fubini.factors.promotion import is_open, promoted
from fubini.factors.represent import converted, represented, restored
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, WhiteNoise, require_key, source_of
from fubini.terms.composite import Sum
from fubini.terms.factor import Factor, Product, Unit, product, rename, terms_of
from fubini.terms.heads import CHOOSE, DRAW, ELEMENTS, MARGINAL, SUM, exact_argmax, exact_sample, exact_sum
from fubini.terms.value import Array


def eliminate(
    factors: Factors,
    sum: Scopes = (),
    plates: Sequence[Name] = (),
    *,
    semiring: Semiring = sum_product,
    scale: Mapping[Name, float] | None = None,
    memory_limit: int | None = None,
) -> Factor:
    """⊕ over `sum` and ⊗ over `plates` of the product of factors, by a plan.

    A mapping says which plates each variable lives in; a bare name lives in the plates common to the factors that
    mention it. `scale` raises a plate to a power. Names that are neither summed nor listed as plates stay inputs; one
    that lives in a plate being multiplied out must be a plate itself, which a mapping says: `sum={"x": ("i", "j")}`.

    >>> f, g = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    >>> eliminate([f, g], sum=("a", "b"))
    2.25
    """
    if current().records:
        return _recorded(*covering_terms(split_terms(factors), sum), plates, semiring, scale)
    terms = split_terms(factors)
    with known_names(terms, sum):
        return _eliminate(converted(terms), sum, plates, semiring, scale, memory_limit)


def _eliminate(
    factors: list[Factor],
    sum: Scopes,
    plates: Sequence[Name],
    semiring: Semiring,
    scale: Mapping[Name, float] | None,
    memory_limit: int | None,
) -> Factor:
    if semiring.homogeneous and semiring.embed is not same_pair and any(term.entrances for term in factors):
        embedded = split_terms(embedded_term(semiring, term) for term in factors)
        semiring = sum_product if semiring.ufunc is np.add else max_product  # of the numbers that remain
        return _eliminate(embedded, sum, plates, semiring, scale, memory_limit)
    if current() is not exact and not plates and not scale:
        terms, summed = covering_terms(factors, sum)
        question = (semiring, product(*terms), tuple(name for name, _ in summed))
        rule = current().find(SUM, question) if summed else None
        if rule is not None and rule not in tuple(exact_sum):  # an interpretation with a way of its own
            return rule.function(*question)
    terms, summed = prepared(factors, sum, plates, semiring)
    if not summed and not plates and semiring.embed is same_pair:
        return product(*terms)

    def run(terms: list[Factor]) -> Factor:
        total = total_of_system(terms, summed, plates or scale, semiring)
        return total or _run(problem_of(terms, summed, plates, scale, memory_limit), terms, semiring)

    if not any([term.promotes for term in terms]):  # all are tables and Gaussians, which every rule joins
        return run(terms)
    return one_or_other(run, together(terms, [name for name, _ in summed], plates, semiring, scale), terms)


def _is_number(piece: Factor) -> Data:
    """Neither weights nor shift is NaN."""
    return jnp.all(jnp.asarray([jnp.all(leaf == leaf) for leaf in piece.leaves()]))


def _not_a_number(terms: Sequence[Factor]) -> DataError:
    return DataError(
        f"an elimination of {product(*terms)}, whose result is not a number",
        expected="log-weights below infinity, none NaN, and points within their domains",
    )


def _cause(otherwise: DataError, run: Callable, *args: Any) -> DataError:
    """Return the error that a compiled function cannot raise, from the same run step by step."""
    try:
        run(*args)
    except DataError as error:
        return error
    return otherwise


def _run(problem: Problem, terms: Sequence[Factor], semiring: Semiring) -> Factor:
    plan, terms, _ = find_plan_with_arrays(problem, terms, False)
    results = eliminate_tables(plan, terms, semiring)
    if results is None:
        results = on_engine(run_forward, plan, terms, semiring)
    if not all([term.lists_cells or isinstance(term, Unit) for term in terms]) and engine_of(terms) == "xla":
        for piece in results:  # what is checked when a table is made is made inside the compiled function
            require(_is_number(piece), lambda: _cause(_not_a_number(terms), run_forward, plan, terms, semiring))
    return product(*(_ordered(piece, plan.sizes) for piece in results))


def marginals(
    factors: Factors,
    names: Scopes,
    plates: Sequence[Name] = (),
    *,
    batch: Sequence[Name] = (),
    semiring: Semiring = sum_product,
    scale: Mapping[Name, float] | None = None,
    memory_limit: int | None = None,
) -> dict[Name, Factor]:
    """The normalised marginal of each name, all from one backward pass.

    Every other variable is summed out too, except the `batch`, which stays an input, and the plates, which are
    multiplied out: the marginal of a variable inside plates has those plates as inputs.

    >>> f = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b"))
    >>> marginals(f, ("a", "b"))["b"].weights
    array([0.5, 0.5])
    """
    given = split_terms(factors)
    with known_names(given, names):
        beliefs = _marginals(converted(given), names, plates, batch, semiring, scale, memory_limit)
        return {name: restored(belief) for name, belief in beliefs.items()}


def _marginals(
    factors: list[Factor],
    names: Scopes,
    plates: Sequence[Name],
    batch: Sequence[Name],
    semiring: Semiring,
    scale: Mapping[Name, float] | None,
    memory_limit: int | None,
) -> dict[Name, Factor]:
    given, targets = covering_terms(factors, names, "the marginal of")
    terms = [term if isinstance(term, Unit) else promoted(term) for term in given]
    if batch:
        covering_terms(terms, as_names(batch, "the batch"), "the batch")
    wanted = tuple(name for name, _ in targets)
    inputs = merge_inputs(*(term.inputs for term in terms))
    asked = {*wanted, *plates, *batch}
    others = [name for name in inputs if name not in asked]
    summed = [*targets, *((name, None) for name in others)]
    if not plates and not scale and semiring is sum_product and any(map(is_open, given)):
        every = (*wanted, *others)
        return {name: _open_marginal(given, name, tuple(n for n in every if n != name)) for name in wanted}
    if len(wanted) == 1 and not plates and not scale:
        return {wanted[0]: _single(terms, wanted[0], others, semiring, memory_limit)}
    solved = marginals_of_system(terms, wanted, batch, plates or scale, semiring)
    if solved is not None:
        return dict(zip(wanted, solved, strict=True))
    plan, terms, arrays = find_plan_with_arrays(problem_of(terms, summed, plates, scale, memory_limit), terms, True)
    beliefs = None if arrays else table_marginals(plan, terms, semiring, wanted, tuple(batch))
    if beliefs is None:
        beliefs = on_engine(run_marginals, plan, terms, semiring, wanted, tuple(batch))
    if engine_of(terms) == "xla":  # a compiled function cannot raise: it marks what it could not normalise by NaN
        for belief in beliefs:
            otherwise = no_mass(belief) if belief.lists_cells else _not_a_number(terms)
            again = partial(_cause, otherwise, run_marginals, plan, terms, semiring, wanted, tuple(batch))
            require(_is_number(belief), again)
    by_name = dict(zip(wanted, beliefs, strict=True))
    by_name.update((n, interpret(ELEMENTS, by_name[n], n, arrays[n])) for n in wanted if n in arrays)
    return {name: _ordered(belief, inputs) for name, belief in by_name.items()}


def argmax(factors: Factors, names: Scopes, plates: Sequence[Name] = ()) -> dict[Name, Data]:
    """The assignment of greatest weight, for each cell of the inputs that are not named.

    >>> argmax(fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), ("a", "b"))
    {'a': np.int64(0), 'b': np.int64(1)}
    """
    terms, targets, inputs = _assignment_terms(factors, names, plates, "argmax over")
    best = mode_of_system(terms, [name for name, _ in targets], plates)
    if best is not None:
        return {name: np.array(best[name].array)[()] for name, _ in targets}
    asked = _assignment_plan(terms, targets, plates, inputs)
    assignment = on_engine(_run_argmax, asked.plan, asked.terms)
    _require_chosen(assignment, asked.names, partial(_run_argmax, asked.plan, asked.terms))
    others = asked.batch_and_plates()
    return {name: _plain(assignment[name], name, asked, *others) for name in asked.names}


def sample(key: Data, factors: Factors, names: Scopes, plates: Sequence[Name] = (), *, n: int | None = None) -> dict:
    """Draws from the normalised product; n first, then the inputs that are not named, in their order.

    `fb.WhiteNoise` in place of the key makes draws of Gaussians a function of standard normal numbers.

    >>> draws = sample(jax.random.key(0), fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), ("a", "b"), n=5)
    >>> draws["a"].shape
    (5,)
    """
    if not isinstance(key, WhiteNoise):
        require_key(key)
    elif n is None and key.numbers.ndim == 2:
        n = len(key.numbers)
    if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1):
        raise DataError(f"n={n!r} samples", expected="a whole number of at least 1, or None for one without an axis")
    terms, targets, inputs = _assignment_terms(factors, names, plates, "a sample of")
    asked = _assignment_plan(terms, targets, plates, inputs)
    values = on_engine(_run_sample, asked.plan, asked.terms, 1 if n is None else n, arrays=(key,))
    _require_chosen(values, asked.names, partial(_run_sample, asked.plan, asked.terms, key, 1))
    others, count = asked.batch_and_plates(), 1 if n is None else n
    drawn = {name: _plain(values[name], name, asked, *others, count) for name in asked.names}
    return drawn if n is not None else {name: value[0] for name, value in drawn.items()}


def _require_chosen(values: Mapping[Name, Array], names: list[Name], again: Callable) -> None:
    """A compiled function cannot raise: it marks what it could not choose by −1 or NaN."""
    for name in names:
        value = values[name]
        ok = value.array >= 0 if value.output.is_discrete else value.array == value.array
        require(ok, lambda: _cause(nothing_to_choose(names), again))


def _single(terms: list, name: Name, others: list, semiring: Semiring, memory_limit: int | None) -> Factor:
    """One marginal needs no backward pass."""
    belief = promoted(eliminate(terms, others, semiring=semiring, memory_limit=memory_limit))
    return normalized(_ordered(belief, merge_inputs(*(term.inputs for term in terms))), name)


def _open_marginal(terms: list[Factor], name: Name, others: tuple[Name, ...]) -> Factor:
    """Return the marginal of terms that no rule joins, by an order of elimination that ends with this name."""
    try:
        return interpret(MARGINAL, product(*terms), name, others)
    except (Intractable, NoRule) as error:
        try:
            return _single(terms, name, list(others), sum_product, None)
        except (Intractable, NoRule):
            raise error from None


def _ordered(factor: Factor, order: Mapping[Name, Any]) -> Factor:
    """A factor with its inputs in the order in which they first appear."""
    return factor._ordered(tuple(order)) if len(factor.inputs) > 1 else factor


def _recorded(terms: list, summed: list, plates: Sequence[Name], semiring: Semiring, scale: Mapping | None) -> Factor:
    if plates or scale or any(home for _, home in summed):
        raise DomainError(
            "a plated elimination under lazy",
            expected="sums and products one at a time",
            advice="record f.product(…) and f.sum(…), or eliminate outside `with fb.lazy:`",
        )
    return Sum(semiring, product(*terms), tuple(name for name, _ in summed)) if summed else product(*terms)


class _Assignment(NamedTuple):
    """A question for one value of each name: the plan, its terms, and the inputs as they were asked."""

    terms: list[Factor]
    names: list[Name]
    plan: Plan
    arrays: Mapping[Name, tuple[Name, ...]]
    inputs: Mapping[Name, Any]

    def batch_and_plates(self) -> tuple[list[Name], set[Name]]:
        """The inputs that no value is asked for, and all plates."""
        plates = {plate for home in self.plan.scopes.values() for plate in home} | set(self.plan.plates)
        plates |= {plate for opened in self.arrays.values() for plate in opened}
        return [name for name in self.inputs if name not in self.plan.scopes], plates


def _assignment_terms(
    factors: Factors, names: Scopes, plates: Sequence[Name], verb: str
) -> tuple[list[Factor], list[tuple[Name, Any]], dict[Name, Any]]:
    """The terms of a question for values of names, the names with where they live, and the inputs as asked."""
    given = split_terms(factors)
    with known_names(given, names):
        terms, targets = covering_terms(converted(given), names, verb)
    inputs = merge_inputs(*(term.inputs for term in terms))
    joined = together(terms, [name for name, _ in targets], plates)
    return [promoted(term) for term in joined], targets, inputs


def _assignment_plan(terms: list[Factor], targets: list, plates: Sequence[Name], inputs: Mapping) -> _Assignment:
    plan, terms, arrays = find_plan_with_arrays(problem_of(terms, targets, plates), terms, True)
    if plan.slices:
        raise MemoryLimit(
            "an assignment from a plan that had to be sliced",
            expected="a plan within the memory limit",
            advice="observe more variables, or ask for marginals, which can be sliced",
        )
    return _Assignment(terms, [name for name, _ in targets], plan, arrays, inputs)


def _run_argmax(plan: Plan, factors: Sequence[Factor]) -> dict[Name, Array]:
    best = choose_from_tables(plan, factors, max_product)
    return descend(plan, factors, max_product, partial(interpret, CHOOSE)) if best is None else best


def _run_sample(plan: Plan, factors: Sequence[Factor], key: Data, n: int) -> dict[Name, Array]:
    randomness = source_of(key, n, engine_of(factors))
    values = choose_from_tables(plan, factors, sum_product, randomness)
    if values is None:
        values = draws_of_system(plan, factors, randomness)
    if values is None:
        randomness = source_of(key, n, engine_of(factors))
        values = descend(plan, factors, sum_product, partial(interpret, DRAW, randomness))
    randomness.finish()
    return values


def _plain(
    value: Array, name: Name, asked: _Assignment, batch: list[Name], plates: set[Name], n: int | None = None
) -> Data:
    """The numbers of an assignment: samples first, then batch inputs and plates in the order of the inputs."""
    value, inputs = plated_value(value, asked.arrays.get(name, ())), asked.inputs
    own = [other for other in batch if other in value.inputs or other not in plates]
    names = [*([SAMPLES] if n is not None else []), *own]
    event = value.output.shape
    shape = [*(n if other is SAMPLES else inputs[other].extent for other in names), *event]
    data = namespace(value.array).broadcast_to(align(value.array, value.names, names, len(event)), shape)
    return data if is_jax(data) else np.array(data)[()]


@exact_sum.rule
def sum_by_plan(semiring: Semiring, f: Product, names: tuple) -> Factor:
    """⊕_x Π_k f_k, in the order the planner finds"""
    if represented() is not None:
        f = Product(*converted(f.terms))
    if any(isinstance(name, Bound) for name in f.inputs):
        return _with_canonical_bounds(semiring, f, names)
    if (
        all([term.lists_cells for term in f.terms]) and asked_engine() != "sparse"
    ):  # the commonest question, asked a thousand times
        sizes = tuple([(name, domain.size or 1) for name, domain in f.inputs.items()])
        scopes = tuple([tuple(term.inputs) for term in f.terms])
        return _run(Problem(scopes, sizes, tuple([(name, None) for name in names])), f.terms, semiring)
    if any(term.pins or term.entrances for term in f.terms):
        return _eliminate(list(f.terms), names, (), semiring, None, None)

    def run(terms: Sequence[Factor]) -> Factor:
        summed = [(name, None) for name in names]
        return total_of_system(terms, summed, (), semiring) or _run(problem_of(terms, summed), terms, semiring)

    return one_or_other(run, together(f.terms, names, semiring=semiring), list(f.terms))


@lru_cache(maxsize=4096)
def _standard_bound(position: int) -> Bound:
    return Bound(f"bound {position}")


def _with_canonical_bounds(semiring: Semiring, f: Product, names: Sequence[Name]) -> Factor:
    """Bound names by position, so that alike terms share plans and compiled functions."""
    bounds = [name for name in f.inputs if isinstance(name, Bound)]
    standard = [_standard_bound(position) for position, _ in enumerate(bounds)]
    there: dict[Name, Name] = dict(zip(bounds, standard, strict=True))
    back: dict[Name, Name] = dict(zip(standard, bounds, strict=True))
    terms = terms_of(rename(f, there))
    try:
        summed = [there.get(name, name) for name in names]
        factor = rename(_eliminate(list(terms), summed, (), semiring, None, None), back)
        return factor._relabelled({str(new): str(old) for new, old in back.items()})
    except FubiniError:  # once more, with the names as they are called: the error should say them
        return _eliminate(list(f.terms), names, (), semiring, None, None)


@exact_argmax.rule
def argmax_by_plan(f: Factor, names: tuple) -> dict:
    """arg max_x f, by a backward pass"""
    return argmax(f, names)


@exact_sample.rule
def sample_by_plan(key: Any, f: Factor, names: tuple, n: int | None) -> dict:
    """x ~ f / Σ f, by a backward pass"""
    return sample(key, f, names, n=n)
