"""Pictures: what is drawn is what was computed, each has a text, and what cannot be drawn is an error."""

import builtins
import struct
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fubini as fb
from fubini import dist


@fb.model
def rates() -> Any:
    common = yield dist.Gamma(2.0, 1.0)
    rate = yield dist.Gamma(2.0, 1.0).expand([3])
    kind = yield dist.Bernoulli(0.25)
    seen = yield dist.Poisson(common)
    counts = yield dist.Poisson(rate)
    flag = yield dist.Normal(1.0 * kind, 1.0)


POST = rates().condition(seen=3, counts=np.array([1, 2, 3]), flag=1.0)


def test_plot_posterior_exact() -> None:
    picture = POST.plot()
    density, intervals, bars = picture.figure.axes
    # common is Gamma(5, 2), its 90 % interval by its quantile function.
    assert picture.text.startswith("Exact posterior of common: mean 2.5, 90 % interval 0.9851 to 4.577.")
    at, heights = density.lines[0].get_data()
    assert np.isclose(np.trapezoid(heights, at), 1.0, atol=2e-3)
    means = intervals.lines[0].get_xdata()
    np.testing.assert_allclose(means, [1.5, 2.0, 2.5], atol=0.05)  # Gamma(2 + n, 2), by draws
    odds = np.exp(0.5) / 3  # of a flag of 1 under Normal(1, 1) and Normal(0, 1)
    np.testing.assert_allclose([bar.get_height() for bar in bars.patches], [1 / (1 + odds), odds / (1 + odds)])


def test_plot_posterior_of_draws() -> None:
    random = np.random.default_rng(0)
    values = {
        "common": random.gamma(5.0, 0.5, (2, 300)),
        "rate": random.gamma(3.0, 0.5, (2, 300, 3)),
        "kind": random.integers(0, 2, (2, 300)),
    }
    posterior = xr.Dataset({name: (("chain", "draw", "i")[: v.ndim], v) for name, v in values.items()})
    picture = POST.plot(xr.DataTree.from_dict({"posterior": posterior}), names=("rate", "kind"))
    intervals, bars = picture.figure.axes
    np.testing.assert_allclose(intervals.lines[0].get_xdata(), values["rate"].mean((0, 1)))
    np.testing.assert_allclose([bar.get_height() for bar in bars.patches], np.bincount(values["kind"].ravel()) / 600)
    assert "mean" in picture.text and "probability" in picture.text


def test_plot_band_with_points() -> None:
    level = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0).expand([20]), x=lambda m: dist.Normal(m, 1.0)))
    y = np.linspace(-2.0, 2.0, 20)
    (axes,) = level.condition(x=y).plot(points={"m": y}, at=np.arange(1900, 1920), along="year").figure.axes
    years, mean = axes.lines[0].get_data()
    assert years[0] == 1900 and axes.get_xlabel() == "year"
    np.testing.assert_allclose(mean, y / 2)
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), y)
    low = axes.collections[0].get_paths()[0].vertices[:, 1].min()
    assert np.isclose(low, -1.0 - 1.6449 * np.sqrt(0.5), atol=1e-3)
    with pytest.raises(fb.FubiniError, match="20 numbers"):
        level.condition(x=y).plot(at=np.arange(3))


def test_plot_switching_chain() -> None:
    x, after = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    noise, y = fb.Array(np.array([0.2, 2.0]), ("s_next",)), np.array([0.1, 2.5, 2.2])
    chain = fb.Chain(
        init=fb.Table([0.5, 0.5], ("s",)) * dist.Normal(0.0, 1.0)("x"),
        factor=fb.Table([[0.9, 0.1], [0.3, 0.7]], ("s", "s_next"))
        * dist.Normal(x, noise)("x_next")
        * dist.Normal(after, 0.5)(fb.Array(y, ("t",))),
        time="t",
        step={"s": "s_next", "x": "x_next"},
    )
    with fb.moment_matching(window=1):
        picture, smoothed = chain.plot(points={"x_next": y}), chain.smooth()
    level, regimes = picture.figure.axes
    np.testing.assert_allclose(level.lines[0].get_ydata(), smoothed.sum("s_next").mean("x_next").data)
    shares = np.exp(smoothed.sum("x_next")(s_next=0).log().data)
    np.testing.assert_allclose(regimes.patches[0].get_data().values, shares)
    assert picture.text.startswith("Approximate smoothed distribution of x_next over 3 positions")


def test_plot_hidden_markov_chain_with_its_series() -> None:
    step = fb.Table([[0.5, 0.5], [0.0, 1.0]], ("x", "x_next"))
    chain = fb.Chain(init=fb.Table([1.0, 0.0], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=2)
    picture = chain.plot(points={"seen": [3.0, 4.0]}, filtered=True)
    series, regimes = picture.figure.axes
    assert series.get_ylabel() == "seen" and regimes.get_ylabel() == "P(x_next)"
    np.testing.assert_allclose(regimes.patches[0].get_data().values, [0.5, 0.25])
    batch = fb.Chain(init=fb.Table(jnp.ones((2, 2)), ("b", "x")), factor=step, time="t", step={"x": "x_next"}, length=2)
    with pytest.raises(fb.FubiniError, match="each value of 'b'"):
        batch.plot()


def test_plot_network() -> None:
    net = fb.io.read_bif(files("fubini.io") / "commute.bif").condition(arrival="late", season="winter")
    picture = net.plot()
    written = [text.get_text() for text in picture.figure.axes[0].texts]
    assert {"strike", "88.5 %", "late"} <= set(written)  # P(strike = no) is 0.8851, as in the README
    assert "given that season is winter, arrival is late" in picture.text
    few = [text.get_text() for text in net.plot("strike").figure.axes[0].texts]
    assert len([text for text in few if text.endswith("%")]) == 2
    pair = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
    assert "75.0 %" in [text.get_text() for text in pair.plot().figure.axes[0].texts]


def test_picture_is_saved_with_its_text(tmp_path: Path) -> None:
    picture = POST.plot(names=["kind"])
    assert picture.text.encode() in picture.save(tmp_path / "kind.png").read_bytes()
    assert "mean" not in picture.text and picture.text in picture.save(tmp_path / "kind.svg").read_text()
    width, _ = struct.unpack(">II", (tmp_path / "kind.png").read_bytes()[16:24])
    assert 300 < width < 1400
    assert f'alt="{picture.text}"' in picture._repr_html_()
    with pytest.raises(fb.FubiniError, match="ends in"):
        picture.save(tmp_path / "kind.txt")


def test_what_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fb.errors.UnknownName, match=r"nearest: .*'rate'"):
        POST.plot(names=["rates"])
    scale = fb.JointNamed(dict(s=dist.HalfNormal(1.0), x=lambda s: dist.Normal(0.0, s)))
    with fb.quadrature():
        assert scale.condition(x=0.5).plot().text.startswith("Approximate posterior of s: mean")
    with pytest.raises(fb.FubiniError, match="draws of type str"):
        scale.condition(x=0.5).plot("draws")
    many = fb.JointNamed({f"m{place}": dist.Normal(0.0, 1.0) for place in range(13)})
    text = many.plot().text
    assert text.startswith("Exact distribution of m0: mean 0,") and text.endswith("Not drawn: m12.")
    with pytest.raises(fb.errors.Intractable, match=r"post\.plot\(post\.infer\(key\)\)"):
        scale.condition(x=0.5).plot()
    original = builtins.__import__

    def without_matplotlib(name: str, *args: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(fb.FubiniError, match=r"fubini\[plot\]"):
        POST.plot()
