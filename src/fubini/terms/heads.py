"""Heads: the operations on factors that interpretations give a meaning to, and the rule sets of `exact` for them.

Representations and the planner register their rules in these sets at import.

>>> from fubini.terms.heads import SUM, exact_sum
>>> exact_sum.head is SUM
True
"""

from fubini.base.interpretations import exact
from fubini.base.rules import RuleSet


class Head:
    """An operation, by name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return self.__name__


SUM = Head("sum")  # (semiring, factor, names)
MULTIPLY_OUT = Head("multiply_out")  # (factor, names): a plate
MULTIPLY = Head("multiply")  # (factor, factor), carried out: products themselves stay lazy
MULTIPLY_MANY = Head("multiply_many")  # (factor, factors): a factor times many that have no names but its own
DIVIDE = Head("divide")  # (factor, factor)
NORMALIZE = Head("normalize")  # (factor, its sum over some names)
ADD = Head("add")  # (factor, factor)
POWER = Head("power")  # (factor, value)
SUBSTITUTE = Head("substitute")  # (factor, {name: value})
JOIN = Head("join")  # (factor): one factor of one representation
CONTRACT = Head("contract")  # (semiring, factor, factor, names kept)
EXCLUDE = Head("exclude")  # (semiring, factor, names): the product over a plate of all cells but one's own
LEVEL = Head("level")  # (factor, plates, names): the factor over, in each cell, that where the product is greatest
ARGMAX = Head("argmax")  # (factor, names)
SAMPLE = Head("sample")  # (key, factor, names, n)
CHOOSE = Head("choose")  # (factor, names): the arg max of one factor for each value of its other inputs
DRAW = Head("draw")  # (randomness, factor, names): a draw for each value of its other inputs
ABSORB = Head("absorb")  # (semiring, factor, others): Σ over the factor's entrances of it times its neighbours there
DISINTEGRATE = Head("disintegrate")  # (factor, names): f(x, y) = p(x | y) · Z(y), of factors that no rule joins
MAXIMISE = Head("maximise")  # (factor, names): the greatest value of factors that no rule joins, and where it is
DESCRIBE = Head("describe")  # (factor, names): how these are integrated out of factors that no rule joins, in words
MARGINALS = Head("marginals")  # (semiring, factor, names, kept): for each name, ⊕ over others, normalised
MARGINAL = Head("marginal")  # (factor, name, other names): the others integrated out, normalised over the name
INTEGRATE = Head("integrate")  # (open integral): weighted points in place of a density that has no closed form
EXPECT = Head("expect")  # (factor, value, names): Σ factor · value / Σ factor
FIX = Head("fix")  # (factor): the form that its numbers decide, while they are known: before a function is traced
SLICES = Head("slices")  # (factor, name): the factor cut along a name, as a loop runs over it
SETTLE = Head("settle")  # (factor, layout): the same function in one fixed layout, as a loop hands it on
LIGHTEN = Head("lighten")  # (factor, names): a settled factor over its greatest weight along the names; the log of that
WEIGH = Head("weigh")  # (factor, logs): a settled factor times exp(logs), which broadcast against its weights
EMBED = Head("embed")  # (semiring, factor): weights as elements of the semiring's carrier
READ = Head("read")  # (semiring, factor): elements of the carrier as weights
REDUCE = Head("reduce")  # (semiring, factor, names): ⊕ of elements of the carrier
REPEAT = Head("repeat")  # (semiring, factor, names, power): ⊗ of elements of the carrier over a plate, to a power
ACCUMULATE = Head("accumulate")  # (semiring, factor, factor): f ⊕ g of elements of the carrier, cell by cell
MASK = Head("mask")  # (semiring, factor, keep): the elements of the carrier, or the semiring's zero
PLACE = Head("place")  # (semiring, factor, {name: domain}, value): the factor where the name has this value, else zero
ELEMENTS = Head("elements")  # (factor, name, plates): of an array variable, one element for each cell of the plates
CONDITION = Head("condition")  # (factor, names): p(names | other inputs) as factors; integers given the integers alone
RECURRENCE = Head("recurrence")  # (layout, steps): all steps of a sequence at once; None where they go one by one
RECAST = Head("recast")  # (chain): another object that answers what is asked of the chain; None for the chain itself
SOLVE = Head("solve")  # (factor, factors, order): their product as one linear system; None where steps go one by one
MATCH = Head("match")  # (factor): the projection with the same mass, mean and covariance; None where there is none
PROPER = Head("proper")  # (factor, names): whether its sum over the names is finite, for each value of the others
BOUNDED = Head("bounded")  # (factor, factor, names): whether the quotient is bounded, for each value of the others
CLIP = Head("clip")  # (factor, factor): a bounded factor near the quotient, which keeps the mean of the product
DIVERGENCE = Head("divergence")  # (factor, factor): Σ p log(p/q) of normalised factors over the same names: a number
DISTANCE = Head("distance")  # (factor, factor): how far two factors are apart, whatever their scales: a number
MOMENTS = Head("moments")  # (factor, names): the factor of an exponential family with the same mass and moments
COVARY = Head(
    "covary"
)  # (factor, names, names): the covariances of all numbers of some variables with all those of others, end to end
CUMULATE = Head("cumulate")  # (factor, name, numbers): P(x ≤ numbers) of each element of a variable
QUANTILE = Head("quantile")  # (factor, name, levels): the least t with P(x ≤ t) ≥ level, of each element of a variable
TO_NUMPYRO = Head(
    "to_numpyro"
)  # (factor, names): the factor normalised over names, or its one variable, as one of numpyro
PLOT = Head("plot")  # (model, network or chain; options): a Picture


def _of_exact(head: Head) -> RuleSet:
    return exact.register(RuleSet(f"exact.{head}", head))


exact_sum = _of_exact(SUM)
exact_multiply_out = _of_exact(MULTIPLY_OUT)
exact_multiply = _of_exact(MULTIPLY)
exact_multiply_many = _of_exact(MULTIPLY_MANY)
exact_divide = _of_exact(DIVIDE)
exact_normalize = _of_exact(NORMALIZE)
exact_add = _of_exact(ADD)
exact_power = _of_exact(POWER)
exact_substitute = _of_exact(SUBSTITUTE)
exact_join = _of_exact(JOIN)
exact_contract = _of_exact(CONTRACT)
exact_exclude = _of_exact(EXCLUDE)
exact_level = _of_exact(LEVEL)
exact_argmax = _of_exact(ARGMAX)
exact_sample = _of_exact(SAMPLE)
exact_choose = _of_exact(CHOOSE)
exact_draw = _of_exact(DRAW)
exact_absorb = _of_exact(ABSORB)
exact_disintegrate = _of_exact(DISINTEGRATE)
exact_maximise = _of_exact(MAXIMISE)
exact_describe = _of_exact(DESCRIBE)
exact_marginals = _of_exact(MARGINALS)
exact_marginal = _of_exact(MARGINAL)
exact_integrate = _of_exact(INTEGRATE)
exact_expect = _of_exact(EXPECT)
exact_fix = _of_exact(FIX)
exact_slices = _of_exact(SLICES)
exact_settle = _of_exact(SETTLE)
exact_lighten = _of_exact(LIGHTEN)
exact_weigh = _of_exact(WEIGH)
exact_embed = _of_exact(EMBED)
exact_read = _of_exact(READ)
exact_reduce = _of_exact(REDUCE)
exact_repeat = _of_exact(REPEAT)
exact_accumulate = _of_exact(ACCUMULATE)
exact_mask = _of_exact(MASK)
exact_place = _of_exact(PLACE)
exact_elements = _of_exact(ELEMENTS)
exact_condition = _of_exact(CONDITION)
exact_recurrence = _of_exact(RECURRENCE)
exact_recast = _of_exact(RECAST)
exact_solve = _of_exact(SOLVE)
exact_proper = _of_exact(PROPER)
exact_bounded = _of_exact(BOUNDED)
exact_clip = _of_exact(CLIP)
exact_divergence = _of_exact(DIVERGENCE)
exact_distance = _of_exact(DISTANCE)
exact_moments = _of_exact(MOMENTS)
exact_match = _of_exact(MATCH)
exact_covary = _of_exact(COVARY)
exact_cumulate = _of_exact(CUMULATE)
exact_quantile = _of_exact(QUANTILE)
exact_to_numpyro = _of_exact(TO_NUMPYRO)
exact_plot = _of_exact(PLOT)
