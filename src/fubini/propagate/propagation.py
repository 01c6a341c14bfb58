"""`fb.propagate`: all marginals and the evidence of a list of factors by message passing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fubini.base.arrays import Data, require_room
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.eliminate.backward import normalized
from fubini.eliminate.engine import engine_of
from fubini.eliminate.prepare import Factors
from fubini.errors import DomainError, MemoryLimit
from fubini.factors.represent import restored
from fubini.propagate.answers import Answer, answer_on_engine, default_tolerance
from fubini.propagate.assignment_choice import choose_in_turn, hanging_together, plain
from fubini.propagate.belief_propagation import SCHEDULES, Schedule, iterate_messages, send_in_order
from fubini.propagate.bundles import Bundles, bundled, one_by_one
from fubini.propagate.calibration import calibrate_hugin, calibrate_shafer_shenoy, read_marginals, sum_everything
from fubini.propagate.division_policy import Division, as_division
from fubini.propagate.factor_graph import FactorGraph, make_factor_graph, stored_terms
from fubini.propagate.fixed_point import require_limits
from fubini.propagate.junction_tree import JunctionTree, make_junction_tree
from fubini.propagate.message_order import order_messages
from fubini.propagate.messages import Exchange
from fubini.propagate.result import Marginals, Propagation, marked_value
from fubini.terms.exactness import Exactness, combined
from fubini.terms.factor import Factor, product
from fubini.terms.storage import DENSE, joined_storage
from fubini.terms.value import Array

METHODS = ("hugin", "shafer-shenoy", "belief propagation")
LEAST_EDGES = 256  # from which alike factors are bundled
LEAST_ALIKE = 8  # edges for each bundle's, on average


@dataclass(frozen=True)
class Settings:
    """All that is asked beside the numbers: what a compiled function is kept for."""

    method: str
    names: tuple[Name, ...]
    batch: tuple[Name, ...]
    semiring: Semiring
    division: Division | None
    schedule: Schedule


def propagate(
    factors: Factors,
    names: Sequence[Name] | None = None,
    *,
    method: str = "hugin",
    batch: Sequence[Name] = (),
    semiring: Semiring = sum_product,
    division: str | Division | None = None,
    damping: float = 0.0,
    schedule: str = "parallel",
    tolerance: float | None = None,
    iterations: int = 1000,
) -> Propagation:
    """Marginals of the names, or of all variables, and the evidence, by messages between factors.

    `hugin` and `shafer-shenoy` pass messages in a junction tree, and are exact; the second never divides. `belief
    propagation` passes them between factors and variables: exact where these form a tree, an approximation elsewhere,
    iterated by a schedule until no message changes by more than the tolerance (1e-9, in single precision 1e-5). It
    multiplies the other messages of a variable, or divides its belief by one where a `division` is given. With
    `semiring=fb.max_product` marginals are max-marginals, and the result has an assignment. Under `fb.represent`
    factors are stored as it says, and marginals are tables again.

    >>> f, g = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    >>> result = propagate([f, g])
    >>> result.marginals["b"].weights.round(4), round(float(result.log_evidence), 4)
    (array([0.3333, 0.6667]), 0.8109)
    >>> propagate([f, g], method="belief propagation", semiring=fb.max_product).assignment
    {'a': np.int64(0), 'b': np.int64(1)}
    """
    with stored_terms(factors, names or (), "fb.propagate") as terms:
        graph, wanted = make_factor_graph(terms, names, batch, semiring)
        tolerance = default_tolerance(graph.factors) if tolerance is None else tolerance
        settings = _settings(method, wanted, batch, semiring, division, (schedule, damping, tolerance, iterations))
        if method == "belief propagation" and (lots := _bundle_alike(graph, settings)) is not None:
            bundles, stacked = lots
            answer = answer_on_engine(_answer_bundled, (settings, bundles), stacked)
            return _result(graph, settings, answer, bundles)
        return _result(graph, settings, answer_on_engine(_answer, (settings,), graph.factors), None)


def _settings(
    method: str, names: Sequence[Name], batch: Sequence[Name], semiring: Semiring, division: Any, schedule: tuple
) -> Settings:
    name, damping, tolerance, iterations = schedule
    for given, known, what in ((method, METHODS, "method"), (name, SCHEDULES, "schedule")):
        if given not in known:
            raise DomainError(f"propagation with {what}={given!r}", expected=f"one of {', '.join(map(repr, known))}")
    require_limits(damping, tolerance, iterations)
    policy = as_division(division) if division is not None or method == "hugin" else None
    chosen = Schedule(name, float(damping), float(tolerance), iterations)
    return Settings(method, tuple(names), tuple(batch), semiring, policy, chosen)


# -- the answer, on any engine --------------------------------------------------------------------------------------


def _answer(settings: Settings, factors: Sequence[Factor]) -> Answer:
    graph, _ = make_factor_graph(list(factors), settings.names, settings.batch, settings.semiring)
    return _by_messages(graph, settings) if settings.method == "belief propagation" else _by_tree(graph, settings)


def _by_tree(graph: FactorGraph, settings: Settings) -> Answer:
    tree = make_junction_tree(graph.scopes, graph.sizes, graph.precedence, graph.storages)
    _require_room(graph, tree, settings)
    if settings.division is not None:
        calibrated = calibrate_hugin(graph, tree, settings.division)
    else:
        calibrated = calibrate_shafer_shenoy(graph, tree)
    found = read_marginals(graph, tree, calibrated, settings.names)
    total = sum_everything(graph, tree, calibrated)
    chosen: dict[Name, Array] = {}
    if graph.semiring is max_product:
        chosen = choose_in_turn(graph, reversed(calibrated.cliques))
    beliefs = [product(*parts) for parts in calibrated.cliques]
    values = [chosen[name] for name in settings.names] if chosen else []
    return Answer([found[name] for name in settings.names], total.log(), beliefs, values, 0.0, 1, calibrated.touched)


def _require_room(graph: FactorGraph, tree: JunctionTree, settings: Settings) -> None:
    """Raise before tables are made that no memory of this machine holds: of all cliques, or of all separators."""
    hugin = settings.division is not None
    cells = sum(_numbers_held(graph, tree, clique, hugin) for clique in range(len(tree.cliques)))
    widest = max(map(len, tree.cliques), default=0)
    asked = f"a junction tree of {len(tree.cliques)} cliques, of {widest} variables at most"
    try:
        require_room(asked, (cells,))
    except MemoryLimit as error:
        raise MemoryLimit(
            asked,
            expected="tables that fit into memory",
            nearest=f"{8 * cells / 2**30:.3g} GB for {'the cliques' if hugin else 'the messages'}",
            advice='use method="belief propagation", an approximation, or observe more variables',
        ) from error


def _numbers_held(graph: FactorGraph, tree: JunctionTree, clique: int, whole: bool) -> int:
    """The numbers of a clique's potential, or of the message that it sends upwards."""
    names = tree.cliques[clique] if whole else tree.separator(clique)
    own = [graph.storages[k] for k, home in enumerate(tree.homes) if home == clique] if graph.storages else []
    storage = joined_storage(own) if own else DENSE
    return (storage if whole else storage.summed(names)).size(names, graph.sizes, {})


def _by_messages(graph: FactorGraph, settings: Settings) -> Answer:
    bundles, factors = one_by_one(graph)
    exchange = Exchange(bundles, factors, graph.semiring, settings.division)
    messages, touched = [None] * len(bundles.edges), 0
    change, count = 0.0, 1
    if graph.is_tree or graph.precedence.reals:
        messages, touched = send_in_order(exchange, order_messages(graph))
    if not graph.is_tree:
        messages, change, count, touched = iterate_messages(exchange, messages, settings.schedule, touched)
    nodes = {node.name: exchange.variable_belief(messages, k) for k, node in enumerate(bundles.nodes)}
    clusters = [exchange.factor_belief(messages, k) for k in range(len(factors))]
    chosen: dict[Name, Array] = {}
    if graph.semiring is max_product and graph.is_tree:
        chosen = choose_in_turn(graph, ([clusters[k]] for k in hanging_together(graph.scopes)))
    elif graph.semiring is max_product:
        chosen = choose_in_turn(graph, ([belief] for belief in nodes.values() if belief is not None))
    found = [normalized(nodes[name], name) for name in settings.names]  # type: ignore[arg-type]
    values = [chosen[name] for name in settings.names] if chosen else []
    return Answer(found, exchange.log_evidence(messages), clusters, values, change, count, touched)


def _bundle_alike(graph: FactorGraph, settings: Settings) -> tuple[Bundles, tuple[Factor, ...]] | None:
    """The graph in bundles, where all messages of an iteration are sent at once and many factors are alike."""
    edges = sum(map(len, graph.scopes))
    least = LEAST_EDGES if engine_of(graph.factors) == "numpy" else 2  # fewer operations are sooner compiled
    plain_division = settings.division is None or settings.division.policy == "allow"
    if edges < least or settings.schedule.name != "parallel" or not plain_division or graph.is_tree:
        return None
    if not all(domain.is_finite for domain in graph.domains.values()) or any(not s for s in graph.scopes):
        return None
    if not all(hasattr(factor, "_with_axis") for factor in graph.factors):
        return None
    bundles, factors = bundled(graph)
    alike = LEAST_ALIKE if least == LEAST_EDGES else 1
    return (bundles, factors) if alike * len(bundles.edges) <= edges else None


def _answer_bundled(settings: Settings, bundles: Bundles, factors: Sequence[Factor]) -> Answer:
    exchange = Exchange(bundles, tuple(factors), settings.semiring, settings.division or Division())
    messages, change, count, touched = iterate_messages(exchange, [None] * len(bundles.edges), settings.schedule)
    beliefs = [exchange.variable_belief(messages, k) for k in range(len(bundles.nodes))]
    found = [normalized(b, node.name) for b, node in zip(beliefs, bundles.nodes, strict=True)]  # type: ignore[arg-type]
    clusters = [exchange.factor_belief(messages, k) for k in range(len(factors))]
    values: list[Array] = []
    if settings.semiring is max_product:
        graph = FactorGraph((), {}, bundles.batch | {node.index for node in bundles.nodes}, settings.semiring)
        values = [choose_in_turn(graph, [[b]])[node.name] for b, node in zip(found, bundles.nodes, strict=True)]
    return Answer(found, exchange.log_evidence(messages), clusters, values, change, count, touched)


# -- the result -----------------------------------------------------------------------------------------------------


def _result(graph: FactorGraph, settings: Settings, answer: Answer, bundles: Bundles | None) -> Propagation:
    loopy = settings.method == "belief propagation" and not graph.is_tree
    mark = combined(graph.factors)
    if loopy:
        mark = mark | Exactness(("belief propagation",))
    elif settings.division is not None and settings.division.policy != "allow":
        mark = mark | Exactness((f"division({settings.division.policy})",))
    converged = answer.change <= settings.schedule.tolerance if loopy else True
    marginals = Marginals(settings.names, [*map(restored, answer.marginals)], bundles, mark)
    return Propagation(
        marginals=marginals,
        log_evidence=marked_value(answer.log_evidence, mark),
        beliefs=tuple(answer.beliefs),
        assignment=_assignment(answer, settings, bundles),
        iterations=answer.iterations,
        converged=converged,
        change=answer.change,
        divisions=answer.touched,
        exactness=combined([*answer.marginals, answer.log_evidence]) | mark,
    )


def _assignment(answer: Answer, settings: Settings, bundles: Bundles | None) -> dict[Name, Data] | None:
    if settings.semiring is not max_product:
        return None
    if bundles is None:
        values: Mapping[Name, Array] = dict(zip(settings.names, answer.assignment, strict=True))
        return plain(values, settings.names, settings.batch)
    found: dict[Name, Data] = {}
    for node, value in zip(bundles.nodes, answer.assignment, strict=True):
        numbers = plain({node.name: value}, [node.name], (node.index, *settings.batch))[node.name]
        found |= dict(zip(node.members, numbers, strict=True))
    return {name: found[name] for name in settings.names}
