"""`fubini demo`: what it prints, and its report, read and opened in a browser.

`make versions` runs the demo of the wheel, in an environment that has nothing else of ours, and names what it printed
and wrote in the variables FUBINI_DEMO and FUBINI_DEMO_REPORT; without them it is run here.
"""

import contextlib
import io
import os
import re
from pathlib import Path

import jax
import pytest

from fubini.cli import main
from tests.report.browser import needs_browser, opened
from tests.report.html_page import HtmlPage, require_alone
from tests.report.test_browser import SCHEMES, WIDTHS, require_working

pytestmark = pytest.mark.slow

SECTIONS = ("glance", "model", "derivation", "posterior", "predictive", "evidence", "loop", "origin")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo printed, and its report."""
    if "FUBINI_DEMO" in os.environ:
        return Path(os.environ["FUBINI_DEMO"]).read_text(encoding="utf-8"), Path(os.environ["FUBINI_DEMO_REPORT"])
    path, printed = tmp_path_factory.mktemp("demo") / "report.html", io.StringIO()
    before = jax.config.read("jax_disable_most_optimizations")
    with contextlib.redirect_stdout(printed):
        assert main(["demo", "--out", str(path)]) == 0
    assert jax.config.read("jax_disable_most_optimizations") == before
    return printed.getvalue(), path


def test_demo_shows_its_work(demo) -> None:
    text, path = demo
    for words in ("rate ~ Beta(", "integrated out", "rate[H]", "own_rates", "items.size", str(path)):
        assert words in text, words
    assert "data2" not in text  # constants have names that say what they are


def test_report_of_the_demo_is_whole(demo) -> None:
    """Every section, the rival models with their evidences, the generated loop; no request, and below 3 MB."""
    _, path = demo
    assert path.stat().st_size < 3_000_000
    html = path.read_text(encoding="utf-8")
    page = HtmlPage(html)
    require_alone(html)
    assert [section["id"] for section in page.found("section")] == list(SECTIONS)
    assert {link["href"] for link in page.found("a")} >= {f"#{name}" for name in SECTIONS}
    assert not page.open and len(page.found("g", **{"class": "site"})) == len(page.found("article")) == 6
    evidence, loop = (
        re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL) for name in ("evidence", "loop")
    )
    assert evidence is not None and "own_rates" in evidence[0] and "−46.9586" in evidence[0]
    assert loop is not None and "def sweep_kind(" in loop[0]


@needs_browser
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_report_of_the_demo_in_a_browser(demo, width, scheme) -> None:
    _, path = demo
    with opened(path, width, scheme) as page:
        require_working(page, width, scheme)
        assert page.picture().startswith(b"\x89PNG")
