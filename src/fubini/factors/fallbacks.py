"""Generic fallbacks: what every product and unfinished form does by way of other rules.

An unfinished form (a Product, a Weight, a Unit, a density) is joined into a representation; a pair of representations
without a rule of its own is promoted to the least one above both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from fubini.base import ops
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import current, interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.errors import DataError, Intractable, NoRule, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import mixture, summed
from fubini.factors.promotion import (
    common_kind,
    is_joinable,
    is_open,
    is_special_case,
    most_general,
    promoted,
    to_kind,
)
from fubini.factors.table import Table, with_mass
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor, Product, Unit, Weight, is_tabular, product, terms_of
from fubini.terms.heads import (
    ADD,
    CONTRACT,
    DISINTEGRATE,
    DIVIDE,
    JOIN,
    MAXIMISE,
    MULTIPLY,
    MULTIPLY_OUT,
    NORMALIZE,
    POWER,
    SUM,
    exact_add,
    exact_divide,
    exact_embed,
    exact_fix,
    exact_join,
    exact_level,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_read,
    exact_substitute,
    exact_sum,
)
from fubini.terms.indexing import fold
from fubini.terms.value import Value, to_value


def join(factor: Factor) -> Factor:
    """One factor of one representation, equal to the product."""
    return interpret(JOIN, factor)


def combined(terms: Sequence[Factor]) -> Factor:
    """The product of terms, each pair multiplied that has a rule for it."""
    done: list[Factor] = []
    for term in terms:
        term = promoted(term)
        for position, other in enumerate(done):
            rule = current().find(MULTIPLY, (other, term))
            if rule is not None:
                done[position] = rule.function(other, term)
                break
        else:
            done.append(term)
    return product(*done)


def is_promotable(*factors: Factor) -> bool:
    """Whether one of them is an unfinished form that can be joined, or there is a representation above them all."""
    if any(map(is_joinable, factors)):
        return True
    return len(factors) == 2 and common_kind(*factors) is not None


def lifted(*factors: Factor) -> tuple[Factor, ...]:
    """Unfinished forms joined; or, where there are none, both as the least representation above them."""
    joined = tuple(map(promoted, factors))
    if any(new is not old for new, old in zip(joined, factors, strict=True)):
        return joined
    kind = common_kind(*factors)
    assert kind is not None, "the guard requires one"
    return tuple(to_kind(factor, kind) for factor in factors)


# -- join -----------------------------------------------------------------------------------------------------------


@exact_join.rule
def join_product(f: Product) -> Factor:
    """Π_k f_k, multiplied pair by pair as far as there are rules"""
    return combined(f.terms)


def _leaves_integers(f: Factor, unit: Unit) -> bool:
    """Whether a unit has only bounded integers beyond another factor."""
    return not isinstance(f, Unit) and all(d.is_finite for name, d in unit.inputs.items() if name not in f.inputs)


def _times_one(f: Factor, unit: Unit) -> Factor:
    missing = {name: domain for name, domain in unit.inputs.items() if name not in f.inputs}
    return combined((f, Table(np.ones([d.extent for d in missing.values()]), missing))) if missing else f


@exact_fix.rule
def fix_any(f: Factor) -> Factor:
    """f  =  f"""
    return f


# -- the operations on pairs ----------------------------------------------------------------------------------------


@exact_multiply.rule(overlaps=("multiply_by_mixture", "multiply_by_delta"))
def multiply_product(f: Product, g: Factor) -> Factor:
    """(Π_k f_k)·g, pair by pair"""
    return combined([*f.terms, *terms_of(g)])


@exact_multiply.rule(overlaps=("multiply_mixture", "multiply_delta"))
def multiply_by_product(f: Factor, g: Product) -> Factor:
    """f·(Π_k g_k), pair by pair"""
    return combined([f, *g.terms])


@exact_multiply.rule
def multiply_products(f: Product, g: Product) -> Factor:
    """(Π_k f_k)(Π_k g_k), pair by pair"""
    return combined([*f.terms, *g.terms])


_ONE = ("multiply_mixture", "multiply_by_mixture", "multiply_delta", "multiply_by_delta", "multiply_product")


@exact_multiply.rule(when=lambda f, g: _leaves_integers(g, f), overlaps=(*_ONE, "multiply_by_product"))
def multiply_unit(f: Unit, g: Factor) -> Factor:
    """1·g  =  g"""
    return _times_one(g, f)


@exact_multiply.rule(when=lambda f, g: _leaves_integers(f, g), overlaps=(*_ONE, "multiply_by_product", "multiply_unit"))
def multiply_by_unit(f: Factor, g: Unit) -> Factor:
    """f·1  =  f"""
    return _times_one(f, g)


@exact_multiply.rule(when=lambda f, g: is_promotable(f, g))
def multiply_promoted(f: Factor, g: Factor) -> Factor:
    """f·g after promotion of both"""
    return interpret(MULTIPLY, *lifted(f, g))


@exact_divide.rule(when=lambda f, g: is_promotable(f, g) and not _has_open(f) and not _has_open(g))
def divide_promoted(f: Factor, g: Factor) -> Factor:
    """f/g after promotion of both"""
    return interpret(DIVIDE, *lifted(f, g))


def _has_special_case(f: Factor, g: Factor) -> bool:
    """Whether one of a pair that has no representation above both has one above it alone."""
    if is_promotable(f, g):
        return False
    return is_special_case(g) or (is_special_case(f) and not _has_open(g))


@exact_divide.rule(when=_has_special_case, overlaps=("divide_promoted", "divide_open"))
def divide_most_general(f: Factor, g: Factor) -> Factor:
    """f/g, each as the most general representation above it: a Circuit over a Gaussian is a Table over a Gaussian"""
    return interpret(DIVIDE, most_general(f), most_general(g))


def _is_joined_in_part(f: Product, g: Factor) -> bool:
    """Whether a product does not multiply into one representation, and some of its terms are representations."""
    whole = promoted(f)
    return isinstance(whole, Product) and any(not term.promotes for term in whole.terms)


@exact_divide.rule(
    when=_is_joined_in_part,
    overlaps=("divide_by_unit", "divide_by_mixture", "divide_by_delta", "divide_others_by_piecewise"),
)
def divide_product(f: Product, g: Factor) -> Factor:
    """(Π_k f_k)/g  =  (f_j/g) Π_{k≠j} f_k,  f_j the term that shares most names with g"""
    terms = terms_of(promoted(f))
    closed = [term for term in terms if not term.promotes]
    chosen = max(closed, key=lambda term: sum(name in g.inputs for name in term.inputs))
    return combined([*(term for term in terms if term is not chosen), interpret(DIVIDE, chosen, g)])


@exact_divide.rule(overlaps=("divide_mixture", "divide_delta"))
def divide_by_unit(f: Factor, g: Unit) -> Factor:
    """f/1  =  f·1"""
    return combined((f, g))


@exact_divide.rule(
    when=lambda f, g: (_has_open(f) or _has_open(g)) and _has_logarithm(g), overlaps=("divide_promoted",)
)
def divide_open(f: Factor, g: Factor) -> Factor:
    """f/g  =  exp(log f − log g) where one of them is no representation"""
    divisor = promoted(g)
    if isinstance(divisor, Table) and divisor.is_on_numpy and not np.all(divisor.pair.weights):
        raise DataError(
            f"{f} / {g}, which is zero somewhere", expected="a divisor that is positive wherever the dividend is"
        )
    over, under = f.log(), g.log()
    zero = ops.equal(over, -math.inf)
    return Weight(ops.where(zero, -math.inf, over - ops.where(zero, 0.0, under)))


def _has_logarithm(g: Factor) -> bool:
    """Positive as far as its kind can tell: an unfinished form, a Gaussian, or a Table, whose zeros are looked for."""
    return all(term.promotes or isinstance(term, (Table, Gaussian)) for term in terms_of(promoted(g)))


def _has_open_term(f: Factor) -> bool:
    return any(map(is_open, terms_of(f)))


def _has_open(f: Factor) -> bool:
    """Whether a factor is a form that no rule joins into a representation."""
    return f.promotes and (not is_joinable(f) or isinstance(promoted(f), Product))


@exact_add.rule(when=lambda f, g: any(map(is_joinable, (f, g))))
def add_promoted(f: Factor, g: Factor) -> Factor:
    """f + g after promotion of both"""
    f, g = promoted(f), promoted(g)
    return mixture((f, g)) if f.promotes or g.promotes else interpret(ADD, f, g)


@exact_normalize.rule(
    when=lambda f, total: not total.inputs and f.promotes and not _has_open_term(f),
    overlaps=("normalize_mixture", "normalize_delta", "normalize_gaussian"),
)
def normalize_unjoined(f: Factor, total: Table) -> Factor:
    """f / Z  =  f · (1/Z), f not joined"""
    return product(f, _reciprocal(f, total))


@exact_normalize.rule(
    when=lambda f, total: _has_open_term(f),
    overlaps=("normalize_mixture", "normalize_delta", "normalize_gaussian", "normalize_unjoined"),
)
def normalize_open(f: Factor, total: Factor) -> Factor:
    """f / Z  =  p, the families that f is recognised as; or f · (1/Z), f not joined"""
    total = promoted(total)
    inverse = _reciprocal(f, total) if isinstance(total, Table) else None  # an error where there is no mass
    if not total.exactness.marks:
        try:
            names = tuple(name for name in f.inputs if name not in total.inputs)
            return product(*interpret(DISINTEGRATE, f, names).conditionals)
        except (Intractable, NoRule):
            pass
    return interpret(DIVIDE, f, total) if inverse is None else product(f, inverse)


def _reciprocal(f: Factor, total: Table) -> Table:
    pair = with_mass(f, total).pair
    return Table._of(Scaled(1.0 / pair.weights, -pair.shift), total.inputs, total.exactness)


@exact_normalize.rule(overlaps=("normalize_mixture", "normalize_delta"))
def normalize_by_unit(f: Factor, total: Unit) -> Factor:
    """f / 1  =  f"""
    return f


@exact_normalize.rule(when=lambda f, total: is_promotable(f, total), overlaps=("normalize_unjoined", "normalize_open"))
def normalize_promoted(f: Factor, total: Factor) -> Factor:
    """f/Z after promotion of both"""
    return interpret(NORMALIZE, *lifted(f, total))


# -- the operations on one ------------------------------------------------------------------------------------------


@exact_power.rule
def power_product(f: Product, exponent: Value) -> Factor:
    """(Π_k f_k)^a  =  Π_k f_k^a"""
    return product(*(interpret(POWER, term, exponent) for term in f.terms))


@exact_power.rule
def power_weight(f: Weight, exponent: Value) -> Factor:
    """exp(v)^a  =  exp(a v)"""
    return interpret(POWER, join(f), exponent) if is_tabular(f) else Weight(f.value * exponent)


@exact_power.rule
def power_unit(f: Unit, exponent: Value) -> Factor:
    """1^a  =  1"""
    return Unit(merge_inputs(f.inputs, exponent.inputs))


@exact_power.rule(when=lambda f, exponent: is_joinable(f))
def power_promoted(f: Factor, exponent: Value) -> Factor:
    """f^a after promotion"""
    return interpret(POWER, join(f), exponent)


@exact_multiply_out.rule
def multiply_out_product(f: Product, names: tuple) -> Factor:
    """Π_i Π_k f_k  =  Π_k Π_i f_k,  and Π_i f = f^|i| where f lacks i"""
    return product(*(_multiply_out_term(term, names, f) for term in f.terms))


def _multiply_out_term(term: Factor, names: tuple, whole: Factor) -> Factor:
    present = tuple(name for name in names if name in term.inputs)
    absent = [whole.inputs[name].size or 1 for name in names if name not in term.inputs]
    times = reduce(lambda a, b: a * b, absent, 1)
    term = interpret(MULTIPLY_OUT, term, present) if present else term
    return term if times == 1 else interpret(POWER, term, to_value(times))


@exact_multiply_out.rule
def multiply_out_weight(f: Weight, names: tuple) -> Factor:
    """Π_i exp(v(i))  =  exp(Σ_i v(i))"""
    return Weight(fold(ops.add, f.value, *names))


@exact_multiply_out.rule(when=lambda f, names: is_joinable(f))
def multiply_out_promoted(f: Factor, names: tuple) -> Factor:
    """Π_i f after promotion"""
    return interpret(MULTIPLY_OUT, join(f), names)


@exact_level.rule
def level_factor(f: Factor, plates: tuple, names: tuple) -> Factor:
    """g  =  f, which is no table"""
    return f


@exact_sum.rule(when=lambda semiring, f, names: is_joinable(f), overlaps=("sum_delta",))
def sum_promoted(semiring: Semiring, f: Weight | Unit | Delta, names: tuple) -> Factor:
    """⊕_x f after promotion"""
    return interpret(SUM, semiring, join(f), names)


@exact_sum.rule(
    when=lambda semiring, f, names: semiring is sum_product and not is_tabular(f) and _are_integers(f, names),
    overlaps=("sum_promoted",),
)
def sum_unit(semiring: Semiring, f: Unit, names: tuple) -> Factor:
    """Σ_k 1  =  |k|"""
    rest = {name: domain for name, domain in f.inputs.items() if name not in names}
    return product(Unit(rest), Table(float(math.prod(f.inputs[name].extent for name in names))))


def _are_integers(f: Factor, names: tuple) -> bool:
    return all(f.inputs[name].is_finite for name in names)


def sum_of_product(semiring: Semiring, f: Product, names: tuple[Name, ...]) -> Factor:
    """⊕_x of terms that no rule multiplies: through those without x, a Mixture over bounded integers, or blocked."""
    rest = [term for term in f.terms if not any(name in term.inputs for name in names)]
    dependent = [term for term in f.terms if any(name in term.inputs for name in names)]
    if len(dependent) == 1:
        return product(*rest, interpret(SUM, semiring, dependent[0], names))
    if len(dependent) == 2:
        keep = frozenset(name for term in dependent for name in term.inputs if name not in names)
        rule = current().find(CONTRACT, (semiring, *dependent, keep))
        if rule is not None and rule.signature[1] != (Factor,):  # the general one has been here
            return product(*rest, rule.function(semiring, *dependent, keep))
    if semiring is sum_product and all(f.inputs[name].is_finite for name in names):
        return product(*rest, summed(product(*dependent), names))
    if semiring is sum_product:
        return product(*rest, interpret(DISINTEGRATE, product(*dependent), names).remaining)
    if semiring is max_product and not all(f.inputs[name].is_finite for name in names):
        return product(*rest, interpret(MAXIMISE, product(*dependent), names).remaining)
    raise blocked(semiring, product(*dependent), names)


def blocked(semiring: Semiring, f: Factor, names: Sequence[Name]) -> Intractable:
    """The error of a sum that has no closed form: which variable, and which factors stand in its way."""
    terms = terms_of(f)
    real = [name for name in names if not f.inputs[name].is_finite] or list(names)
    dependent = [term for term in terms if any(name in term.inputs for name in real)]
    what = "the integral" if semiring is sum_product else f"{semiring}"
    return Intractable(
        f"{what} over {listed(real)} of {' * '.join(map(repr, dependent or terms))}",
        expected="factors that multiply into one Table, Gaussian, Delta or Mixture, or one density summed over its own",
        nearest="; ".join(f"{term} does not in {_mentioned(term, real)}" for term in dependent),
        advice="observe or keep these variables, record the sum with `with fb.lazy:`, or approximate it",
    )


def _mentioned(term: Factor, names: Sequence[Name]) -> str:
    return listed(name for name in names if name in term.inputs)


# -- semirings ------------------------------------------------------------------------------------------------------


@exact_embed.rule
def embed_weights(semiring: Semiring, f: Factor) -> Factor:
    """f, in a semiring of weights; a representation that is to be summed in another has a rule of its own"""
    if semiring in (sum_product, max_product):
        return f
    raise Intractable(
        f"{semiring} of {f}",
        expected="Tables: other semirings than sum_product and max_product are of bounded integers alone",
    )


@exact_read.rule
def read_weights(semiring: Semiring, f: Factor) -> Factor:
    """f, weights as they are"""
    return f


# -- substitution ---------------------------------------------------------------------------------------------------


@exact_substitute.rule
def substitute_unit(f: Unit, values: Mapping) -> Factor:
    """1 at x = u  =  1"""
    rest = {name: domain for name, domain in f.inputs.items() if name not in values}
    return Unit(merge_inputs(rest, *(value.inputs for value in values.values())))


@exact_substitute.rule
def substitute_weight(f: Weight, values: Mapping) -> Factor:
    """exp(v) at x = u  =  exp(v(x = u))"""
    return Weight(f.value.replaced(values))
