"""What each of several processes answers, and the errors where they do not ask the same; written as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from tests.scale.scripts.logistic_run import X, Y, draws

read: list[int] = []


class Rows:
    """Rows of a file, whose reads are counted."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def __getitem__(self, where: Any) -> np.ndarray:
        part = self.rows[where]
        read.append(len(part))
        return part


def with_scale(scale: float) -> Any:
    @fb.model
    def normal(count):
        v = yield fb.dist.InverseGamma(3.0, 2.0).named("v")
        m = yield fb.dist.Normal(1.0, scale * jnp.sqrt(v)).named("m")
        yield fb.dist.Normal(m, jnp.sqrt(v)).expand([count]).named("y")

    return normal


def with_captured(rows: np.ndarray) -> Any:
    @fb.model
    def shifted():
        m = yield fb.dist.Normal(0.0, 1.0).named("m")
        yield fb.dist.Normal(m + rows, 1.0).named("y")

    return shifted


normal = with_scale(1.0)


@fb.model
def regression(X):
    v = yield fb.dist.InverseGamma(3.0, 2.0).named("v")
    w = yield fb.dist.Normal(0.0, 2 * jnp.sqrt(v)).expand([X.shape[1]]).named("w")
    yield fb.dist.Normal(X @ w, jnp.sqrt(v)).named("y")


@fb.model
def labelled():
    w = yield fb.dist.Dirichlet(np.ones(2)).named("w")
    z = yield fb.dist.Categorical(w).expand([5]).named("z")
    p = yield fb.dist.Beta(1.0, 1.0).expand([2]).named("p")
    yield fb.dist.Bernoulli(p[z]).named("y")


def numbers(x: Any) -> Any:
    return np.asarray(x).tolist()


def refused(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except fb.FubiniError as error:
        return str(error)
    return "answered"


def write_answers(here: fb.Processes, folder: Path) -> None:
    """All answers of this process."""
    mesh, groups = jax.make_mesh((8,), ("rows",)), jax.make_mesh((2, 4), ("chains", "rows"))

    def spread(rows: Any) -> Any:
        return fb.shard(rows, mesh, "rows")

    answers: dict[str, Any] = {"place": [here.index, here.count]}
    y = spread(Rows(Y))
    answers["rows read"] = sorted(read)
    post = normal(len(Y)).condition(y=y)
    answers["normal"] = float(post.log_evidence())
    answers["mean"] = float(post.marginal("m").mean("m"))
    answers["slope"] = float(jax.grad(lambda m: post.log_prob(m=m, v=1.0))(0.5))
    exact = post.infer(jax.random.key(1), draws=3, chains=1, progress=False, log_likelihood=True)
    answers["kept on the mesh"] = exact.posterior.attrs["not_fetched"]
    answers["log-likelihoods"] = numbers(exact.log_likelihood["y"].sum(("chain", "draw")))
    linear = regression(spread(X)).condition(y=y)
    answers["regression"] = float(linear.log_evidence())
    answers["weights"] = numbers(linear.marginal("w").mean("w"))
    labels = labelled().condition(y=np.array([0, 1, 1, 0, 1])).eliminate("w", "p").gibbs("z", engine="python")
    answers["labels"] = numbers(labels.run(jax.random.key(2), 5, 4, mesh=groups)["z"])
    answers["labels of one process"] = numbers(labels.run(jax.random.key(2), 5, 4)["z"])
    answers["resumed"] = numbers(draws(groups, checkpoint=folder / "run.npz"))
    answers["nuts"] = numbers(draws(groups))
    answers["stored"] = numbers(draws(groups, store=folder / "draws.zarr"))

    weights = spread(X[:392] ** 2 + 1.0)

    def of_factors(more: float) -> Any:
        factors = [fb.Table(np.array([0.4, 0.6 + more]), ("z",)), fb.Table(weights, ("i", "z"))]
        return fb.marginals(factors, {"z": ()}, plates=("i",))["z"].normalize().weights

    answers["factors"] = numbers(of_factors(0.0))
    step = fb.Table(np.array([[0.9, 0.1], [0.2, 0.8]]), ("x", "x1")) * fb.Table(weights, ("t", "x1"))
    chain = fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x1"})

    # What differs between processes; each of these is an error in all of them, after which they go on together.
    index = here.index
    differ: dict[str, Callable[[], Any]] = {
        "shape": lambda: spread(Y[: 399 - 8 * index]),
        "model": lambda: with_scale(1.0 + index)(len(Y)).condition(y=y).log_evidence(),
        "data": lambda: regression(X + index).condition(y=y).log_evidence(),
        "captured": lambda: with_captured(X[:, 0] + index)().condition(y=y).log_evidence(),
        "values": lambda: post.log_prob(m=0.5 + index, v=1.0),
        "checkpoint": lambda: draws(groups, checkpoint=folder / "other.npz" if index else None),
        "factors": lambda: of_factors(index),
        "key of a chain": lambda: chain.sample(jax.random.key(index)),
        "key": lambda: draws(groups, index),
        "draws": lambda: draws(groups, draws=6 + index),
        "key of predict": lambda: linear.predict(jax.random.key(index), "w", draws=2),
        "key of labels": lambda: labels.run(jax.random.key(index), 5, 4, mesh=groups),
        "chains of labels": lambda: labels.run(jax.random.key(0), 5, 3, mesh=groups),
        "question": lambda: post.log_evidence() if index else draws(groups),
    }
    answers["refused"] = {name: refused(ask) for name, ask in differ.items()}
    answers["normal again"] = float(normal(len(Y)).condition(y=y).log_evidence())
    (folder / f"answers-{index}.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    write_answers(fb.distributed(), Path(sys.argv[1]))
