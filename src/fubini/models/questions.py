"""Questions to a model: what has a closed form is integrated out, without anyone deriving it.

Each is asked of the interpretation in force; `fubini.questions` has the answers of `exact`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fubini.base.arrays import Data
from fubini.base.interpretations import interpret
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.explanation import Explanation
from fubini.errors import UnknownName, listed
from fubini.models.draw_arrays import group_of, key_in
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.question_heads import (
    EXPLAIN,
    FACTORS,
    INFER,
    LOG_EVIDENCE,
    LOG_PREDICTIVE,
    MARGINAL,
    MODE,
    POSTERIOR,
    POSTERIOR_FUNCTION,
    PREDICT,
    PRIOR,
    answer,
)
from fubini.show.picture import Picture
from fubini.terms.factor import Factor
from fubini.terms.heads import PLOT
from fubini.terms.value import Value


class Questions(Flavour):
    """The questions to any joint; of one with observations, about its other sites given these."""

    def log_evidence(self, semiring: Semiring = sum_product) -> Value:
        """log p(observed), the other sites integrated out exactly; an error that names what blocks it.

        Under `fb.max_product` the logarithm of the greatest density; under others what they make of tables.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).log_evidence()), 6)
        -1.328012
        """
        return interpret(LOG_EVIDENCE, FlatModel(self), semiring)

    def posterior(self) -> Factor:
        """The sites that are not observed given those that are: a normalised factor, or the error that says why not.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).posterior().mean("m")), 6)
        0.25
        """
        return answer(POSTERIOR, FlatModel(self))

    def factors(self) -> list[Factor]:
        """The density as a list of factors over the sites that are not observed, for `fb.eliminate` and its like.

        >>> model = fb.JointNamed(dict(r=fb.dist.Gamma(2.0, 3.0), x=lambda r: fb.dist.Poisson(jnp.sqrt(r))))
        >>> model.condition(x=4).factors()
        [Gamma(concentration=2, rate=3)(r)
          r: mean 0.6667, sd 0.4714, 90 % interval 0.1185 to 1.581, Poisson(rate=√r)(4)]
        """
        return answer(FACTORS, FlatModel(self))

    def marginal(self, *sites: Any) -> Factor:
        """Some sites given the observations, the others integrated out exactly: a normalised factor.

        Several names are several sites together. A function of the sites, `lambda s: s.a[0] - s.a[1]`, has a marginal
        where it is affine and they are normal or Student's t together, where they are finite, and where it only rises
        or only falls in a single number.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).marginal("m").variance("m")), 6)
        0.5
        >>> model.marginal("m", "x").covariance("m", "x")
        1
        """
        return answer(MARGINAL, FlatModel(self), sites[0] if len(sites) == 1 else sites)

    def eliminate(self, *names: str) -> EliminatedModel:
        """The model with these sites integrated out, for `recover` to draw back; an error where that is not closed.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.eliminate("m").names
        ('x',)
        """
        return eliminated(FlatModel(self), ()).eliminate(*names)

    def recover(self, key: Data, draws: Any) -> dict[str, Data]:
        """Draws of all latents, given draws of some: the others have a closed form given these, and are drawn from it.

        The draws are ArviZ data, or arrays by name with axes of a batch in front, [chain, draw, …] say.

        >>> @fb.model
        ... def scaled():
        ...     s = yield fb.dist.HalfNormal(1.0)
        ...     m = yield fb.dist.Normal(0.0, s)
        ...     x = yield fb.dist.Normal(m, s)
        >>> post = scaled().condition(x=0.5)
        >>> post.recover(jax.random.key(0), {"s": np.ones((2, 10))})["m"].shape
        (2, 10)
        """
        model = FlatModel(self)
        group, latents = group_of(draws), tuple(model.reading.sites)
        known = [name for name in latents if key_in(group, name) is not None]
        if not known:
            raise UnknownName(
                "recover(…) from draws of no latent",
                expected=f"draws of some of the latents: {listed(latents)}",
                nearest=listed(group),
            )
        rest = [name for name in latents if name not in known]
        return self.eliminate(*rest).recover(key, draws)

    def predict(
        self,
        key: Data,
        *names: str,
        draws: Any = 1000,
        model: Any = None,
        new: str | Sequence[str] = (),
        arviz: bool = False,
        **options: Any,
    ) -> Any:
        """Draws of sites given latents drawn from the exact posterior: one array for one name, else a dict.

        `model` is another model with the same latents by name, at new inputs say. Where the posterior has no closed
        form, `draws` are those of `infer`, or arrays [chain, draw, …] by name. A latent that only the new model has is
        drawn from it, given the rest. Where the new model has more entries of a latent along one axis, the first are
        those of the draws, and the others are drawn given these: more groups, later steps of a chain. Sites named in
        `new` are drawn from the new model whole, as latents of rows must be where its rows are other ones. An observed
        site whose entries depend on each other (`dist.Markov`, NumPyro's `scan`, a multivariate normal) goes on from
        the data where the new model has more of them. With `arviz=True` the answer is ArviZ data with the group
        `predictions`, or `posterior_predictive` without `model`; `dims` and `coords` name axes.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.condition(x=0.5).predict(jax.random.key(0), "x", draws=10).shape
        (10,)
        """
        asked = {"draws": draws, "model": model, "new": new, "arviz": arviz, **options}
        return interpret(PREDICT, FlatModel(self), key, names, asked)

    def log_predictive(
        self, model: Any, draws: Any = None, key: Data = None, new: str | Sequence[str] = (), **options: Any
    ) -> Value:
        """log p(new data | data), for a model of the same latents that is conditioned on the new data.

        Exact where the evidence of both data sets together is. Otherwise `draws`, those of `infer` or arrays
        [chain, draw, …], are averaged over, and what has a closed form given the others is integrated out at each of
        them; the exactness of the answer has the standard error. Latents that only the new model has, and more entries
        of others, are integrated out too, as are those named in `new`; where they have no closed form they are drawn,
        which needs a key.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).log_predictive(model.condition(x=1.0))), 6)
        -1.309171
        """
        return interpret(LOG_PREDICTIVE, FlatModel(self), model, {"draws": draws, "key": key, "new": new, **options})

    def explain(self) -> Explanation:
        """Explain which latents are eliminated and how, which remain and why; `fb.explain(post)`.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.condition(x=0.5).explain()
        JointNamed(m: Real, x: Real) given 'x'
          m ~ Normal(0, 1)
          x ~ Normal(m, 1), observed
        integrated out
          1. m: Normal given the rest, 1 entry
             ∫ exp(−½ p (x − m)²) dx = √(2π/p)
             loc = 0.25
             scale = 0.707107
        nothing remains: evidence, marginals and draws are exact
        """
        return answer(EXPLAIN, FlatModel(self))

    def plot(
        self,
        draws: Any = None,
        *,
        names: Sequence[str] | None = None,
        points: Mapping[str, Any] | None = None,
        at: Any = None,
        along: str = "",
    ) -> Picture:
        """A picture of the posterior: of draws, or of exact marginals where there are none. Needs `fubini[plot]`.

        A number has a density, a few numbers have intervals, many a band, labels their probabilities. `names` are the
        sites to draw; `points` are data to draw beside a site, or a series of their own; `at` says where the entries of
        arrays lie, and `along` what the axis is called.

        >>> model = fb.JointNamed(dict(r=fb.dist.Gamma(2.0, 3.0), x=lambda r: fb.dist.Poisson(r)))
        >>> model.condition(x=4).plot()
        Picture: Exact posterior of r: mean 1.5, 90 % interval 0.6533 to 2.628.
        """
        options = {"draws": draws, "names": None if names is None else tuple(names), "points": points, "at": at}
        return answer(PLOT, self, {**options, "along": along})

    def gibbs(self, *names: str, without: Sequence[str] = (), **options: Any) -> Any:
        """A compiled sampler of these labels, or of all that are finite; see `EliminatedModel.gibbs`.

        >>> @fb.model
        ... def classes():
        ...     k = yield fb.dist.Categorical(jnp.ones(2) / 2).expand([4])
        ...     m = yield fb.dist.Normal(0.0, 3.0).expand([2])
        ...     y = yield fb.dist.Normal(m[k], 1.0)
        >>> classes().condition(y=np.array([-2.0, -2.5, 2.0, 2.5])).gibbs("k", engine="python")
        Gibbs sampler of 'k' in classes(k: Bint[2, 4], m: Reals[2], y: Reals[4]) given 'y'
        """
        return eliminated(FlatModel(self), ()).gibbs(*names, without=without, **options)

    def kernel(self, *names: str, engine: str = "numba") -> Any:
        """The exact distributions of latents as one compiled function of the data; by default of the last eliminated.

        A distribution is given the latents that are eliminated after its own, whose values the function takes too.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> posterior = model.condition(x=0.5).kernel("m", engine="python")
        >>> posterior()
        {'m': {'loc': 0.25, 'scale': 0.7071067811865475}}
        """
        return answer(POSTERIOR_FUNCTION, FlatModel(self), names, engine)

    def map(self) -> Any:
        """The values at which the posterior density of all latents together is greatest.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).map()["m"]), 6)
        0.25
        """
        return answer(MODE, FlatModel(self))

    def infer(
        self,
        key: Data = None,
        draws: int = 1000,
        chains: int = 4,
        *,
        warmup: int | None = None,
        method: str | None = None,
        eliminate: Sequence[str] | None = None,
        checkpoint: str | os.PathLike | None = None,
        store: str | os.PathLike | None = None,
        mesh: Any = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        progress: bool = True,
        log_likelihood: bool | None = None,
        predictive: bool | None = None,
        **options: Any,
    ) -> Any:
        """Draws of all latents given the observations, as ArviZ data.

        What has a closed form is integrated out (or only the sites named in `eliminate`), the rest is sampled by
        `method`, and what was integrated out is drawn back. Methods: "grid", independent draws of one to three numbers;
        "nuts", the no-U-turn sampler; "smc", populations taken to the posterior through temperatures, for modes that
        are far apart; "gibbs", labels one entry after another, all else that can be integrated out; "svi" and
        "laplace", normal approximations. By default it is a grid where one describes the remaining latents well, and
        the no-U-turn sampler otherwise, or where an option of it is given: target_accept, max_tree_depth, dense_mass.
        Labels of a mixture whose components have a closed form given them are drawn, and not summed out. With
        `checkpoint`, a path, a killed run of any method goes on where it was. With `store`, a path, draws that memory
        does not hold go into a Zarr store, and are read from it when they are asked for. With `mesh`, chains of the
        no-U-turn sampler lie along its axis "chains", and data along its others as `fb.shard` placed them; no chain
        waits for those on other devices. The groups of log-likelihoods and predictive draws are there unless they would
        be very large; data that lie on a mesh stay there, `posterior.attrs["not_fetched"]` names them, and these groups
        have them with `log_likelihood=True` and `predictive=True` alone. Where a discrete site cannot be summed out, a
        compiled sampler draws it one entry after another (see `gibbs`), or NumPyro's Gibbs steps do so with all sites
        where no rule makes one.

        >>> model = fb.JointNamed(dict(r=fb.dist.Gamma(2.0, 3.0), x=lambda r: fb.dist.Poisson(r)))
        >>> data = model.condition(x=4).infer(jax.random.key(0), draws=100, chains=2, progress=False)
        >>> data.posterior["r"].shape
        (2, 100)
        """
        settings = dict(
            draws=draws,
            chains=chains,
            warmup=warmup,
            method=method,
            eliminate=eliminate,
            checkpoint=checkpoint,
            store=store,
            mesh=mesh,
            dims=dims,
            coords=coords,
            progress=progress,
            log_likelihood=log_likelihood,
            predictive=predictive,
            options=options,
        )
        return answer(INFER, FlatModel(self), key, settings)

    def prior(
        self,
        key: Data = None,
        draws: int = 500,
        *,
        observed: str | Sequence[str] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> Any:
        """Draws of the model itself as ArviZ data: latents in the group `prior`, data in `prior_predictive`.

        Data are the sites that are observed, or those named in `observed`; what was observed is in `observed_data`.
        `infer(key).extend(post.prior(key))` has prior and posterior together.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> data = model.condition(x=0.5).prior(jax.random.key(0), draws=100)
        >>> data.prior["m"].shape, data.prior_predictive["x"].shape, data.observed_data["x"].item()
        ((1, 100), (1, 100), 0.5)
        """
        settings = dict(draws=draws, observed=observed, dims=dims, coords=coords, options=options)
        return answer(PRIOR, FlatModel(self), key, settings)
