"""The formats of the UAI inference competitions: models, evidence and results.

Comments are passed over. Variables have numbers only; here number i has the name "xi". Tables list the last variable
of their scope fastest. In a BAYES model the last variable of a scope is the child of the others.
"""

import math
from collections.abc import Mapping

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import DataError, UnknownName, closest, listed
from fubini.io.record import SUM_TOLERANCE, NetworkRecord, RowSums, find_cycle, first_unnormalised, shape_of
from fubini.io.uai_words import Words

_Scope = tuple[str, ...]


def parse_uai(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> NetworkRecord:
    """The model a UAI text describes; BAYES rows within 1e-3 of summing to 1 are normalised.

    >>> record = parse_uai("MARKOV 2  2 2  1  2 0 1  4  1 2 3 4")
    >>> record.variables, record.tables[0][1].tolist()
    ({'x0': Bint[2], 'x1': Bint[2]}, [[1.0, 2.0], [3.0, 4.0]])
    """
    words = Words(text, source, limits)
    directed = _read_header(words)
    variables = _read_variables(words)
    scopes = _read_scopes(words, list(variables), directed)
    _check_cells(words, variables, scopes)
    sums = RowSums(source)
    tables = tuple((scope, _read_table(words, variables, scope, sums if directed else None)) for scope in scopes)
    words.finish("the last table")
    sums.warn()
    return NetworkRecord("", variables, tables, directed)


def _read_header(words: Words) -> bool:
    kind = words.take("the type of the model")
    if kind not in ("MARKOV", "BAYES"):
        raise words.error(
            words.position - 1,
            f"the type of model {kind!r}",
            expected="MARKOV or BAYES",
            nearest=closest(kind.upper(), ["MARKOV", "BAYES"]),
            advice="check that the file is a UAI model",
        )
    return kind == "BAYES"


def _read_variables(words: Words) -> dict[str, Domain]:
    count = words.integer("the number of variables")
    words.limits.require("variables", count, words.file.source)
    return {f"x{index}": _read_domain(words, index) for index in range(count)}


def _read_domain(words: Words, index: int) -> Domain:
    size = words.integer(f"the size of variable {index}", low=1)
    words.limits.require("states", size, f"{words.file.source}: variable {index}")
    return Bint[size]


def _read_scopes(words: Words, names: list[str], directed: bool) -> list[_Scope]:
    count = words.integer("the number of factors")
    words.limits.require("factors", count, words.file.source)
    starts: dict[str, int] = {}
    scopes: list[_Scope] = []
    for factor in range(count):
        start = words.position
        scopes.append(_read_scope(words, names, factor))
        if directed:
            _add_child(words, scopes, starts, start)
    if directed:
        _check_children(words, names, scopes, starts)
    return scopes


def _read_scope(words: Words, names: list[str], factor: int) -> _Scope:
    start = words.position
    length = words.integer(f"the number of variables of factor {factor}")
    words.limits.require("scope", length, f"{words.file.source}: factor {factor}")
    numbers = [words.integer(f"a variable of factor {factor}", high=len(names) - 1) for _ in range(length)]
    if len(set(numbers)) != len(numbers):
        raise words.error(
            start,
            f"factor {factor} names the variables {numbers}",
            expected="different variables",
            advice="sum or select the repeated axis before writing",
        )
    return tuple(names[number] for number in numbers)


def _add_child(words: Words, scopes: list[_Scope], starts: dict[str, int], start: int) -> None:
    factor, scope = len(scopes) - 1, scopes[-1]
    if not scope or scope[-1] in starts:
        cause = f"factor {factor} is a second table of {scope[-1]!r}" if scope else f"factor {factor} has no child"
        raise words.error(
            start,
            cause,
            expected="one factor for each variable of a BAYES model, which comes last in its scope",
            advice="say MARKOV if the factors are not conditional tables",
        )
    starts[scope[-1]] = start


def _check_children(words: Words, names: list[str], scopes: list[_Scope], starts: dict[str, int]) -> None:
    missing = [name for name in names if name not in starts]
    if missing:
        raise words.error(
            words.position - 1,
            f"no factor of a BAYES model has the child {listed(missing[:5])}",
            expected="one factor for each variable, which comes last in its scope",
            advice="add the factor, or say MARKOV",
        )
    cycle = find_cycle({scope[-1]: scope[:-1] for scope in scopes})
    if cycle:
        raise words.error(
            starts[cycle[0]],
            f"a cycle among the parents: {' -> '.join(cycle)}",
            expected="variables that can be ordered with parents before children",
            advice="remove one arc of the cycle, or say MARKOV",
        )


def _check_cells(words: Words, variables: dict[str, Domain], scopes: list[_Scope]) -> None:
    cells = 0
    for factor, scope in enumerate(scopes):
        cells += math.prod(shape_of(variables[name] for name in scope))
        words.limits.require("cells", cells, f"{words.file.source}: the tables up to factor {factor}")


def _read_table(words: Words, variables: dict[str, Domain], scope: _Scope, sums: RowSums | None) -> np.ndarray:
    sizes = shape_of(variables[name] for name in scope)
    cells, what = math.prod(sizes), f"the table over {listed(scope)}"
    count = words.integer(f"the number of values of {what}")
    if count != cells:
        raise words.error(
            words.position - 1,
            f"{count} values announced for {what}",
            expected=f"{cells}, the product of the sizes {sizes}",
            advice="check the scope of the factor and the sizes of its variables",
        )
    values = words.numbers(cells, what)
    if sums is None:
        return values.reshape(sizes)
    return _normalised(words, values.reshape(-1, sizes[-1]), what, sums).reshape(sizes)


def _normalised(words: Words, rows: np.ndarray, what: str, sums: RowSums) -> np.ndarray:
    row = first_unnormalised(rows)
    if row is not None:
        with np.errstate(over="ignore"):
            total = float(rows[row].sum())
        raise words.error(
            words.position - rows.size + row * rows.shape[-1],
            f"row {row} of {what} sums to {total!r}",
            expected=f"a sum within {SUM_TOLERANCE:g} of 1 over the last variable of the scope",
            advice="correct the values, or say MARKOV",
        )
    return sums.normalise(rows)


def format_uai(record: NetworkRecord) -> str:
    """A network as a UAI model, BAYES if directed; names and labels give way to numbers.

    >>> print(format_uai(parse_uai("MARKOV 1  2  1  1 0  2  0.5 1.5")), end="")
    MARKOV
    1
    2
    1
    1 0
    2
     0.5 1.5
    """
    numbers = {name: number for number, name in enumerate(record.variables)}
    lines = ["BAYES" if record.directed else "MARKOV", str(len(numbers))]
    lines += [" ".join(str(domain.size) for domain in record.variables.values()), str(len(record.tables))]
    lines += [" ".join(map(str, (len(names), *(numbers[name] for name in names)))) for names, _ in record.tables]
    for _, table in record.tables:
        rows = table.reshape(-1, table.shape[-1] if table.ndim else 1).tolist()
        lines += [str(table.size), *(" " + " ".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def parse_uai_evidence(
    text: str, source: str = "<text>", variables: Mapping[str, Domain] | None = None, limits: Limits = DEFAULT
) -> dict[str, int]:
    """The observed values by name: a count and pairs, behind a number of evidence sets (1) or not.

    The two forms differ in parity: a count and pairs are an odd number of words. With the variables of a network,
    numbers and values must lie in them, and their names are used.

    >>> parse_uai_evidence("2  0 1  3 0"), parse_uai_evidence("1  2  0 1  3 0")
    ({'x0': 1, 'x3': 0}, {'x0': 1, 'x3': 0})
    """
    words = Words(text, source, limits)
    if words.words[:1] == ["1"] and len(words.words) % 2 == 0:
        words.skip("1")
    count = words.integer("the number of observed variables")
    words.limits.require("variables", count, source)
    words.finish(f"{count} pairs of evidence", ahead=2 * count)
    evidence: dict[str, int] = {}
    known = None if variables is None else list(variables.items())
    for _ in range(count):
        name, value = _read_observation(words, known)
        if name in evidence:
            raise words.error(
                words.position - 2,
                f"a second value of {name!r}",
                expected="one value for each observed variable",
                advice="remove one of the two",
            )
        evidence[name] = value
    return evidence


def _read_observation(words: Words, known: list[tuple[str, Domain]] | None) -> tuple[str, int]:
    if known is None:
        return f"x{words.integer('an observed variable')}", words.integer("an observed value")
    name, domain = known[words.integer("an observed variable", high=len(known) - 1)]
    if not domain.is_finite:
        raise words.error(
            words.position - 1,
            f"the real variable {name!r} in a file of evidence",
            expected="variables with states, whose values are numbers from 0 on",
            advice="observe it by network.condition(…)",
        )
    return name, words.integer(f"the value of {name!r}", high=domain.extent - 1)


def format_uai_evidence(evidence: Mapping[str, int], variables: Mapping[str, Domain]) -> str:
    r"""Evidence on a network in the form of a count and pairs.

    >>> format_uai_evidence({"x0": 1}, {"x0": Bint[2]})
    '1 0 1\n'
    """
    numbers = {name: number for number, name in enumerate(variables)}
    words = [len(evidence)]
    for name, value in evidence.items():
        _check_observation(variables, name, value)
        words += [numbers[name], int(value)]
    return " ".join(map(str, words)) + "\n"


def _check_observation(known: Mapping[str, Domain], name: str, value: int) -> None:
    asked = f"the evidence {name} = {value}"
    if name not in known:
        raise UnknownName(
            asked, expected="a variable of the network", nearest=closest(name, known), advice="check the name"
        )
    (size,) = shape_of([known[name]])
    if not 0 <= value < size:
        raise DataError(asked, expected=f"a value from 0 to {size - 1}", advice="check the evidence")


def parse_uai_marginals(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> dict[str, np.ndarray]:
    """The marginals of a .MAR file by name.

    >>> parse_uai_marginals("MAR  1  2 0.25 0.75")
    {'x0': array([0.25, 0.75])}
    """
    words = Words(text, source, limits)
    words.skip("MAR")
    marginals: dict[str, np.ndarray] = {}
    for index in range(words.integer("the number of variables")):
        size = words.integer(f"the size of variable {index}", low=1)
        marginals[f"x{index}"] = words.numbers(size, f"the marginal of variable {index}")
    words.finish("the last marginal")
    return marginals


def parse_uai_partition(text: str, source: str = "<text>") -> float:
    """log₁₀ of the partition function, from a .PR file; −∞ for impossible evidence.

    >>> parse_uai_partition("PR -17.2155")
    -17.2155
    """
    words = Words(text, source)
    words.skip("PR")
    value = words.real("the logarithm of the partition function")
    words.finish("the logarithm of the partition function")
    return value
