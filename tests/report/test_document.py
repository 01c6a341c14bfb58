"""The parts of a report: landmarks, headings, graph, steps, figures; one file that asks for nothing, and is small."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import xarray

import fubini as fb
from fubini.errors import DomainError, FileFormatError
from fubini.questions.compare import Comparison
from fubini.report import document
from tests.report.examples import (
    HOSTILE,
    closed_report,
    data,
    fitted_report,
    groups_post,
    groups_report,
    network_report,
    schools_draws,
    schools_post,
    schools_report,
)
from tests.report.html_page import HtmlPage, require_alone

REPORTS = {
    "schools": schools_report,
    "groups": groups_report,
    "closed": closed_report,
    "network": network_report,
    "fitted": fitted_report,
}
every_report = pytest.mark.parametrize("name", REPORTS)


@every_report
def test_elements_close_and_identifiers_differ(name) -> None:
    page = HtmlPage(REPORTS[name]().html)
    assert not page.open
    identifiers = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    named = {a[key] for _, a in page.elements for key in ("aria-controls", "aria-labelledby") if key in a}
    assert named <= set(identifiers)
    assert {a["href"].removeprefix("#") for a in page.found("a")} <= set(identifiers)


@every_report
def test_landmarks_and_headings(name) -> None:
    page = HtmlPage(REPORTS[name]().html)
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert len(page.found(tag)) == 1, tag
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert page.found("a", **{"class": "skip", "href": "#content"})
    assert page.found("html", lang="en")


@every_report
def test_nothing_is_asked_for(name) -> None:
    require_alone(REPORTS[name]().html)


@every_report
def test_formulas_and_drawings_are_well_formed(name) -> None:
    html = REPORTS[name]().html
    formulas = re.findall(r"<math.*?</math>", html, re.DOTALL)
    assert formulas
    for formula in formulas:
        assert ElementTree.fromstring(formula).get("alttext")
    for drawing in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ElementTree.fromstring(drawing)


@every_report
def test_figures_have_descriptions(name) -> None:
    page = HtmlPage(REPORTS[name]().html)
    drawings = page.found("svg", role="img")
    assert len(drawings) == len(page.found("figure")) == len(page.found("figcaption"))
    assert all(a["aria-label"] for a in drawings)


@every_report
def test_every_site_is_a_button_with_a_panel(name) -> None:
    page = HtmlPage(REPORTS[name]().html)
    nodes = page.found("g", **{"class": "site"})
    assert len(nodes) == len(page.found("article")) > 1
    assert all(a["tabindex"] == "0" and a["role"] == "button" and a["aria-label"] for a in nodes)
    assert [a["aria-controls"] for a in nodes] == [a["id"] for a in page.found("article")]


@pytest.mark.parametrize("kind", [HOSTILE])
def test_names_and_texts_are_escaped(kind) -> None:
    html = closed_report().html
    page = HtmlPage(html)
    assert len(page.found("script")) == 1
    assert HOSTILE not in html and "alert(1)" in html
    assert ("title", HOSTILE) in page.texts and ("h1", HOSTILE) in page.texts


def test_labels_of_axes_are_escaped() -> None:
    theta, labels = np.random.default_rng(0).normal(size=(2, 40, 8)), [f"<b>{place}</b>" for place in range(8)]
    draws = data({"theta": theta}, dims={"theta": ["school"]}, coords={"school": labels})
    html = fb.report(schools_post(), draws).html
    assert "<b>0</b>" not in html and "theta[&lt;b&gt;0&lt;/b&gt;]" in html


def test_roles() -> None:
    nodes = HtmlPage(schools_report().html).found("g", **{"class": "site"})
    assert [a["aria-label"] for a in nodes] == [
        "mu, integrated out",
        "tau, sampled",
        "theta, integrated out",
        "y, observed",
    ]
    nodes = HtmlPage(groups_report().html).found("g", **{"class": "site"})
    expected = ["weights, integrated out", "mean, integrated out", "z, sampled", "s, observed"]
    assert [a["aria-label"] for a in nodes] == expected


def test_what_a_report_of_draws_says() -> None:
    html = schools_report().html
    for words in (
        "mu ~ Normal(0, 5)",
        "theta and mu are integrated out exactly. tau is sampled",
        "a closed form would need a logarithm of x or of 1 − x alone",
        "with fb.quadrature(): post.log_evidence()",
        "8 of 8 observations of y (100 %) lie within their 90 % predictive intervals",
        "It has no closed form here, since tau remains",
        "fubini infer schools.py --data y.csv",
        "Densities, traces and ranks of theta",
        "No problem was found.",
    ):
        assert words in html, words


def test_what_a_report_of_a_label_sampler_says() -> None:
    html = groups_report().html
    assert "weights and mean are integrated out exactly; z is drawn one entry after another" in html.replace(
        "mean and weights are", "weights and mean are"
    )
    assert "def sweep_z(" in html and "Passes that made it: histogram" in html
    assert "Posterior of the labels z" in html


def test_rival_models_and_their_loops() -> None:
    sampler = groups_post().eliminate("weights", "mean").gibbs("z", engine="python")
    comparison = Comparison({"one": -3.0, "two": -4.0})
    html = fb.report(schools_post(), schools_draws(), loops={"Three groups": sampler}, comparison=comparison).html
    cells = "".join(f"<td>{number}</td>" for number in ("−4.0000", "−1.0000", "0.2689"))
    assert f'<tr><th scope="row">two</th>{cells}</tr>' in html
    assert "<h3>Three groups</h3>" in html and "def sweep_z(" in html
    assert "mu, integrated out" in html  # the roles are those of the model itself


def test_what_a_report_of_a_network_says() -> None:
    """Observed, likely, set from outside; and the most probable values of all others, with their probabilities."""
    page = HtmlPage(network_report().html)
    assert network_report().title == "Report on the network relay"
    assert ["b", "set from outside", "<on>"] in page.rows() and ["d", "observed", "<on>"] in page.rows()
    assert ["c", "soft evidence, by weights", "off: 0.25, <on>: 0.75"] in page.rows()
    a = [0.6, 0.4]
    c = np.array([0.4 * 0.25 * 0.1, 0.6 * 0.75 * 0.8])  # given b, on; times the weights; d is on
    for place, label in np.ndindex(2, 2):
        probability = a[place] * c[label] / c.sum()
        assert [f"{probability:.4g}", ("off", "<on>")[place], ("off", "<on>")[label]] in page.rows()
    assert "says nothing about its causes" in page.text


def test_what_a_report_of_a_fit_says() -> None:
    """The objective by step, and what was learnt with its standard errors."""
    page = HtmlPage(fitted_report().html)
    assert ["mean", "0", "0.25"] in page.rows() and ["scale", "1", "0.125"] in page.rows()
    assert "learnt in 3 steps" in page.text and "The objective over 3 steps, from −9 to −4.5" in page.text


def test_a_report_of_learnt_tables() -> None:
    rows = {"rain": ["dry", "wet", "wet", None], "grass": ["brown", "lush", "lush", "lush"]}
    page = HtmlPage(fb.report(fb.Network.learn(rows, structure={"grass": ["rain"]})).html)
    assert "The tables were learnt from 4 rows, 1 cell missing, 6 steps" in page.text


def test_names_in_formulas_are_text() -> None:
    sites = {"log_rate": fb.dist.Normal(0.0, 1.0), "y": lambda log_rate: fb.dist.Normal(2.0 * log_rate, 1.0)}
    html = fb.report(fb.JointNamed(sites).condition(y=1.0)).html
    assert "<mi>log</mi>" not in html and "log_rate" in html


def test_what_a_report_without_draws_says() -> None:
    html = closed_report().html
    assert "Normal(loc=0.25, scale=0.7071068)" in html.replace("0.7071067811865476", "0.7071068")
    assert "log p(observed) = <strong>−1.328012</strong> (exact)" in html
    cells = "".join(f"<td>{number}</td>" for number in ("0.25", "0.7071", "−0.9131", "1.413"))  # mean ± 1.6449 sd
    assert f'<tr><th scope="row">m</th>{cells}</tr>' in html
    assert "Exact density of m" in html and "Probability of each value of s" in html
    assert '<tr><th scope="row">k[3]</th><td>0.2500</td><td>0.7500</td></tr>' in html and "k[12]" not in html
    assert "The first 12 of 20 numbers of k are shown" in html


def test_approximate_answers_say_so() -> None:
    bent = fb.JointNamed(dict(a=fb.dist.Normal(0.0, 1.0), b=lambda a: fb.dist.Normal(a**2, 1.0))).condition(b=1.0)
    with fb.quadrature():
        html = fb.report(bent).html
    assert "Approximate: quadrature." in html
    assert "xact" not in html.partition("The posterior</h2>")[2].partition('<section id="evidence"')[0]


def test_nested_joints() -> None:
    inner = fb.JointNamed(dict(a=fb.dist.Normal(0.0, 1.0), b=lambda a: fb.dist.Normal(a, 1.0)))
    post = fb.JointNamed(dict(inner=inner, y=lambda inner: fb.dist.Normal(inner["b"], 1.0))).condition(y=1.0)
    html = fb.report(post).html
    assert "inner, can be integrated out" in html and "Exact posterior of inner.a" in html
    drawn = data({"inner.a": np.random.default_rng(0).normal(size=(2, 50))}, "exact", ("inner.a", "inner.b"))
    assert "Density of inner.a" in fb.report(post, drawn).html


def test_data_trees_are_read() -> None:
    groups = {"posterior": schools_draws().posterior.copy(), "observed_data": schools_draws().observed_data}
    html = fb.report(schools_post(), xarray.DataTree.from_dict(groups)).html
    assert "Density of theta[7]" in html and "tau, sampled" in html


def test_large_arrays_are_cut() -> None:
    generator = np.random.default_rng(1)
    draws = data({"mu": generator.normal(size=(4, 2000)), "theta": generator.normal(size=(4, 2000, 500))})
    html = fb.report(schools_post(), draws).html
    assert "The first 12 of 500 numbers of theta are shown; 488 more are not." in html
    assert "theta[11]" in html and "theta[12]" not in html
    assert len(html.encode()) < 3_000_000


def test_many_sites_stay_small() -> None:
    generator = np.random.default_rng(1)
    draws = data({f"x{place}": generator.normal(size=(4, 300, 3)) for place in range(100)})
    assert len(fb.report(schools_post(), draws).html.encode()) < 3_000_000


def test_draws_that_are_not_finite_or_do_not_vary() -> None:
    draws = data({"mu": np.full((2, 30), np.nan), "tau": np.ones((2, 30)), "theta": np.full((2, 30, 8), np.inf)})
    html = fb.report(schools_post(), draws).html
    assert "mu has no finite draws." in html and "tau is 1 in every draw." in html
    assert "Some draws are not finite numbers: of mu, theta." in html


def test_one_chain_of_one_draw() -> None:
    html = fb.report(schools_post(), data({"mu": np.zeros((1, 1)), "theta": np.ones((1, 1, 8))})).html
    assert "R-hat needs two chains or more that vary" in html


def test_notebooks_show_it_in_a_frame() -> None:
    shown = schools_report()._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
    assert HtmlPage(shown).found("iframe")[0]["srcdoc"] == schools_report().html


def test_save_replaces_a_file(tmp_path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    assert schools_report().save(path) == path
    assert path.read_text(encoding="utf-8") == schools_report().html
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("place", ["missing/report.html", ""])
def test_save_where_nothing_can_be_written(tmp_path, place) -> None:
    with pytest.raises(FileFormatError, match="a report saved to"):
        schools_report().save(tmp_path / place)


def test_save_to_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(descriptor) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(document.os, "fsync", full)
    with pytest.raises(FileFormatError, match="No space left on device"):
        schools_report().save(path)
    assert path.read_text() == "old" and [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((lambda: 1, None, None), "a report of function"),
        ((schools_post, {"mu": 1.0}, None), "draws of type dict"),
        ((groups_post, None, "gibbs"), "a report with sampler=str"),
    ],
)
def test_what_is_no_model_draws_or_sampler_is_refused(arguments, words) -> None:
    post, draws, sampler = arguments
    with pytest.raises(DomainError, match=words):
        fb.report(post() if post in (schools_post, groups_post) else post, draws, sampler=sampler)


@pytest.mark.parametrize("keywords", [{"loops": {"a": 1}}, {"loops": [1]}, {"comparison": {"a": -1.0}}], ids=str)
def test_what_is_no_loop_or_comparison_is_refused(keywords) -> None:
    with pytest.raises(DomainError, match=f"a report with {next(iter(keywords))}="):
        fb.report(schools_post(), **keywords)


def test_repr_is_short() -> None:
    assert re.fullmatch(r"Report 'Report on schools', \d+ kB; \.save\(path\) writes it", repr(schools_report()))
    assert schools_draws() is schools_draws()
