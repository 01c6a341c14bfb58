"""Circuit: a factor over Booleans as a probabilistic sentential decision diagram, and what sums make of one.

A deterministic circuit is a PSDD (Kisa, Van den Broeck, Choi, Darwiche 2014): of the elements of a node at most one has
weight at any assignment. A variable that is summed out leaves a structured circuit whose nodes add up, one that is
maximised a circuit whose nodes are maxima; both keep vtree and size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, as_array, is_jax, is_traced, namespace, require
from fubini.base.domains import Bint, Domain, Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product
from fubini.errors import DataError, DomainError, MemoryLimit, NameClash, listed
from fubini.factors.circuit_storage import CircuitStorage
from fubini.factors.promotion import promotion
from fubini.factors.table import Table, no_mass
from fubini.numerics.circuit_counts import entropy
from fubini.numerics.circuit_structure import CircuitStructure
from fubini.numerics.circuit_values import log_of_complete_rows, marginals, root_values
from fubini.numerics.circuit_weights import Weights, align_weights, count_positive, ones
from fubini.numerics.scaled import Scaled, positive_log
from fubini.show.notation import Call, Notation
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.factor import Factor
from fubini.terms.fields import array_field, static_field
from fubini.terms.heads import DIVERGENCE, MULTIPLY
from fubini.terms.name_axis import require_added_axis
from fubini.terms.storage import Storage
from fubini.terms.term import typed_names
from fubini.terms.value import Array, Value

MOST_CELLS = 2**20  # of a table that a circuit is made into
DETERMINISTIC, SUM, MAXIMUM = "deterministic", "sum", "maximum"


class Circuit(Factor):
    """A non-negative function of Booleans, Σ over elements of θ · prime · sub at every node of a vtree.

    Its weights may depend on other names, the batch. `slots` are the names of the vtree's variables, None where a name
    is used otherwise; those that are not `present` have been eliminated.

    >>> f = fb.circuits.parity(("a", "b", "c"), is_odd=True)
    >>> f.count_models(), float(f.sum("a", "b", "c")), f.sum("a").nodes
    (4, 4.0, 'sum')
    """

    _leaves: Data = array_field()
    _shift: Data = array_field()
    _log_theta: Data = array_field()
    diagram: CircuitStructure = static_field()
    slots: tuple[Name | None, ...] = static_field()
    present: tuple[bool, ...] = static_field()
    batch: tuple[Name, ...] = static_field()
    nodes: str = static_field()
    mark: Exactness = static_field()

    def __init__(self, structure: CircuitStructure, names: Sequence[Name]) -> None:
        """Take a structure as the indicator of its models, the variables called by these names."""
        if len(set(names)) != len(names) or len(names) != structure.vtree.count:
            raise NameClash(
                f"a Circuit over {listed(names)}", expected=f"{structure.vtree.count} different names, one each"
            )
        self._build(structure, ones(structure), tuple(names), (True,) * len(names), {}, DETERMINISTIC, exactly)

    def _build(
        self,
        structure: CircuitStructure,
        weights: Weights,
        slots: tuple[Name | None, ...],
        present: tuple[bool, ...],
        batch: Mapping[Name, Domain],
        nodes: str,
        mark: Exactness,
    ) -> None:
        own = {slot: Bint[2] for slot, is_there in zip(slots, present, strict=True) if is_there and slot is not None}
        taken = {*batch, *own}
        free = tuple(
            slot if is_there or slot not in taken else None for slot, is_there in zip(slots, present, strict=True)
        )
        self._set(_leaves=weights.leaves, _shift=weights.shift, _log_theta=weights.log_theta, diagram=structure)
        self._set(slots=free, present=present, batch=tuple(batch), nodes=nodes, mark=mark, inputs={**batch, **own})

    @classmethod
    def _of(cls, structure: CircuitStructure, weights: Weights, like: Circuit, **changes: Any) -> Circuit:
        """Make a circuit from checked parts; slots, presence, batch, nodes and mark as another has them, or changed."""
        fields = {"slots": like.slots, "present": like.present, "batch": like.batch_domains}
        new = object.__new__(cls)
        new._build(structure, weights, **{**fields, "nodes": like.nodes, "mark": like.mark, **changes})
        return new

    # -- what it is made of -----------------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.mark

    @property
    def storage(self) -> Storage:
        """A pass over its elements costs as much as it holds."""
        structure = self.diagram
        return CircuitStorage((structure.vtree,), self.slots, 2 * structure.leaves + structure.size)

    @property
    def weights_of_nodes(self) -> Weights:
        """The weights of leaves and elements, batched in front."""
        weights = Weights(self._leaves, self._shift, self._log_theta)
        extra = np.ndim(self._log_theta) - len(self.batch) - 1
        if extra:
            raise DomainError(
                f"an operation on a Circuit with {extra} axes that have no name",
                expected="a name for each axis: this term was returned from vmap",
                advice='name the axis first: fb.name_axis(term, "i")',
            )
        return weights

    @property
    def batch_domains(self) -> dict[Name, Domain]:
        """The other names that its weights depend on."""
        return {name: self.inputs[name] for name in self.batch}

    @property
    def variables(self) -> tuple[Name, ...]:
        """The Booleans that are not eliminated, in the order of the vtree's numbers.

        >>> fb.circuits.exactly_one(("a", "b", "c")).sum("b").variables
        ('a', 'c')
        """
        return tuple(self.slots[position] for position in self.positions)  # type: ignore[misc]

    @property
    def positions(self) -> tuple[int, ...]:
        """The numbers in the vtree of the variables that are not eliminated."""
        return tuple(position for position, is_there in enumerate(self.present) if is_there)

    @property
    def is_deterministic(self) -> bool:
        """Whether it is a PSDD: at most one element of a node has weight at any assignment.

        >>> f = fb.circuits.exactly_one(("a", "b", "c"))
        >>> f.is_deterministic, f.sum("b").is_deterministic
        (True, False)
        """
        return self.nodes == DETERMINISTIC

    @property
    def size(self) -> int:
        """The number of elements.

        >>> fb.circuits.permutations(10).size
        5530
        """
        return self.diagram.size

    @property
    def is_on_numpy(self) -> bool:
        """Whether its weights are arrays of NumPy."""
        return not any(is_jax(leaf) for leaf in self.leaves())

    def position(self, name: Name) -> int:
        """The number of a variable in the vtree."""
        return self.slots.index(name)

    def batched_over(self, names: Sequence[Name]) -> Weights:
        """The weights with the axes of the batch in this order."""
        return align_weights(self.weights_of_nodes, self.batch, names)

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> Circuit:
        slots = [names.get(s, s) if p and s is not None else s for s, p in zip(self.slots, self.present, strict=True)]
        batch = {names.get(name, name): domain for name, domain in self.batch_domains.items()}
        return Circuit._of(self.diagram, self.weights_of_nodes, self, slots=tuple(slots), batch=batch)

    def _with_axis(self, name: Name) -> Circuit:
        require_added_axis(np.ndim(self._log_theta) - len(self.batch) - 1, self, name)
        weights = Weights(self._leaves, self._shift, self._log_theta)
        size = max(part.shape[0] for part in weights)
        return Circuit._of(self.diagram, weights, self, batch={name: Bint[size], **self.batch_domains})

    def _marked(self, mark: Exactness) -> Circuit:
        return Circuit._of(self.diagram, self.weights_of_nodes, self, mark=self.mark | mark)

    def _log(self) -> Value:
        return to_table(self).log()

    def notation(self) -> Notation:
        return Call("Circuit", typed_names(self.inputs))

    def _form(self) -> Iterable[Block]:
        structure = self.diagram
        kind = "a PSDD" if self.is_deterministic else f"not deterministic, its nodes are {self.nodes} nodes"
        sizes = f"{structure.count:,} nodes and {structure.size:,} elements in {len(structure.layers)} layers"
        yield Expression(self.notation())
        yield Words(f"{sizes}, {kind}", 2)

    def _mean(self, name: Name) -> Value:
        return to_table(self)._mean(name)

    def _covariance(self, name: Name) -> Value:
        return to_table(self)._covariance(name)

    def _entropy(self) -> Value:
        """−Σ p log p, over elements and leaves; 0 log 0 = 0."""
        if not self.is_deterministic or self.batch:
            return to_table(self)._entropy()
        return Array._of(entropy(self.diagram, self.weights_of_nodes), (), {}, Real, self.mark)

    def _kl(self, other: Factor) -> Value:
        """Σ p log(p/q): of two circuits over one vtree from their elements, else as tables."""
        return interpret(DIVERGENCE, self, other)

    # -- evaluation -------------------------------------------------------------------------------------------------

    def value_at(self, evidence: Data = None, semiring: Semiring | None = None) -> Scaled:
        """⊕ over all variables, (batch…), or with evidence (V, rows), −1 for missing, (batch…, rows)."""
        is_maximum = semiring is max_product or self.nodes == MAXIMUM
        return root_values(self.diagram, self.weights_of_nodes, evidence, is_maximum)

    def evidence_rows(self, rows: Data) -> Data:
        """Rows of data (rows, variables) as evidence (V, rows): −1 for what is missing or was eliminated."""
        rows = as_array(rows)
        if np.ndim(rows) != 2 or rows.shape[1] != len(self.positions):
            raise DomainError(
                f"rows of shape {np.shape(rows)} of {self}",
                expected=f"(rows, {len(self.positions)}): a column for each variable, in the order of `variables`",
            )
        xp = namespace(rows)
        ok = (rows == 0) | (rows == 1) | (rows == -1)
        (rows,) = require(ok, lambda: DataError(f"rows of {self}", expected="0, 1, or −1 for a missing value"), rows)
        full = xp.full((len(self.slots), rows.shape[0]), -1, np.int32)
        where = np.asarray(self.positions, np.int32)
        columns = rows.T.astype(np.int32)
        if xp is np:
            full[where] = columns
            return full
        return full.at[where].set(columns)

    def log_evidence(self, rows: Data) -> Data:
        """log Σ f over the missing values of each row of data (rows, variables), −1 for missing: (batch…, rows).

        >>> np.exp(fb.circuits.parity(("a", "b"), is_odd=True).log_evidence([[1, -1], [1, 1]]))
        array([1., 0.])
        """
        evidence = self.evidence_rows(rows)
        is_plain = self.is_deterministic and self.is_on_numpy and type(evidence) is np.ndarray and all(self.present)
        if is_plain and (evidence >= 0).all():
            return log_of_complete_rows(self.diagram, self.weights_of_nodes, evidence)
        pair = self.value_at(evidence)
        return positive_log(pair.weights) + pair.shift

    def marginal_probabilities(self, rows: Data = None) -> Data:
        """P(x = 1 | evidence) of every variable, (batch…, variables) or (batch…, rows, variables), in one pass down.

        >>> fb.circuits.exactly_one(("a", "b")).marginal_probabilities([[-1, -1], [0, -1]])
        array([[0.5, 0.5],
               [0. , 1. ]])
        """
        self._require_sums("marginals")
        evidence = None if rows is None else self.evidence_rows(rows)
        probabilities, has_mass = marginals(self.diagram, self.weights_of_nodes, evidence)
        result = namespace(probabilities).moveaxis(probabilities[np.asarray(self.positions, np.int32)], 0, -1)
        return require(has_mass[..., None], lambda: no_mass(self), result)[0]

    def _require_sums(self, asked: str) -> None:
        if self.nodes == MAXIMUM:
            raise DataError(
                f"{asked} of {self}, whose nodes are maxima", expected="a circuit of which no variable was maximised"
            )

    def multiply(self, *others: Factor) -> Factor:
        """Multiply by other factors at once, in order: tables over few of the variables, circuits over the same vtree.

        >>> f = fb.circuits.parity(("a", "b"), is_odd=True).multiply(fb.Table([0.5, 2.0], ("a",)))
        >>> float(f.sum("a", "b"))
        2.5
        """
        return reduce(lambda f, g: interpret(MULTIPLY, f, g), others, self)

    def count_models(self) -> int:
        """The number of assignments at which it is positive, as a whole number, of a deterministic circuit.

        >>> fb.circuits.permutations(4).count_models()
        24
        """
        if not self.is_deterministic or self.batch or is_traced(*self.leaves()):
            raise DataError(
                f"the number of models of {self}",
                expected="a deterministic circuit (a PSDD) without a batch, whose weights are known",
                advice="count before variables are eliminated, and outside of jit",
            )
        return int(count_positive(self.diagram, self.weights_of_nodes)[()])


@promotion(Circuit, Table)
def to_table(f: Circuit) -> Table:
    """The circuit's value at every assignment of its variables."""
    names = f.variables
    cells = 2 ** len(names) * int(np.prod([domain.extent for domain in f.batch_domains.values()]))
    if cells > MOST_CELLS:
        raise MemoryLimit(
            f"{f} as a Table of {cells:.3g} cells",
            expected=f"at most {MOST_CELLS:,}",
            nearest=f"it has {len(names)} variables, of which {f.size:,} elements say what is possible",
            advice="sum or observe variables first: f.marginal_probabilities() are the means of all variables, and "
            "f.log_evidence(rows) evaluates single assignments",
        )
    if not names:
        evidence = None
    else:
        grid = np.stack(np.meshgrid(*[np.arange(2)] * len(names), indexing="ij"), -1).reshape(-1, len(names))
        evidence = f.evidence_rows(grid)
    weights, shift, *_ = f.value_at(evidence)
    shape = [*(domain.extent for domain in f.batch_domains.values()), *[2] * len(names)]
    xp = namespace(weights, shift)
    rows = [1] * 0 if evidence is None else [2 ** len(names)]
    spread = [xp.broadcast_to(part, [*shape[: len(f.batch)], *rows]).reshape(shape) for part in (weights, shift)]
    return Table._of(Scaled(*spread), {**f.batch_domains, **{name: Bint[2] for name in names}}, f.mark)


def concrete(array: Data) -> np.ndarray:
    """Known numbers as NumPy's."""
    return np.asarray(jax.device_get(array)) if is_jax(array) else np.asarray(array)
