"""Reports in a browser: no error, no request, every part answers to the mouse and to keys, and nothing is cut off."""

import pytest

from tests.report.browser import Page, needs_browser, opened
from tests.report.examples import closed_report, groups_report, schools_report

WIDTHS, SCHEMES = (400, 1400), ("light", "dark")
VISIBLE = "[...document.querySelectorAll('.panel')].findIndex(panel => !panel.hidden)"
PRESSED = "[...document.querySelectorAll('g.site')].findIndex(node => node.getAttribute('aria-pressed') === 'true')"
FOCUSED = "[...document.querySelectorAll('g.site')].indexOf(document.activeElement)"
OPEN = "document.querySelectorAll('details.step[open]').length"
# Elements that stick out of the page, and out of no element that scrolls.
STICKING_OUT = """
[...document.querySelectorAll('main *')].filter(node =>
  node.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !node.closest('.wide, pre') && node.checkVisibility()).map(node => node.outerHTML.slice(0, 200))
"""
# Labels of figures that lie over each other, or outside of their figure.
TOUCHING = """
[...document.querySelectorAll('figure svg')].filter(drawing => drawing.checkVisibility()).flatMap(drawing => {
  const frame = drawing.getBoundingClientRect();
  const boxes = [...drawing.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  const out = boxes.filter(box => box.left < frame.left || box.right > frame.right + 1);
  const over = boxes.filter((a, i) => boxes.slice(i + 1).some(b =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom));
  return out.length + over.length ? [drawing.getAttribute('aria-label')] : [];
})
"""
# The contrast of a colour with the page behind it (WCAG 2, relative luminance).
CONTRAST = """
(() => {
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((total, c, k) => total + c * [0.2126, 0.7152, 0.0722][k], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const ratio = colour => (Math.max(light(colour), paper) + 0.05) / (Math.min(light(colour), paper) + 0.05);
  const shown = [...document.querySelectorAll('p, li, td, th, dt, dd, h1, h2, h3, a, figcaption, strong')];
  return Math.min(...shown.filter(node => node.checkVisibility()).map(node => ratio(getComputedStyle(node).color)));
})()
"""


def require_working(page: Page, width: int, scheme: str) -> None:
    """Do all that a reader can do; fail where something does not answer."""
    sites = page.run("document.querySelectorAll('g.site').length")
    assert sites > 1 and page.run(VISIBLE) == page.run(PRESSED) == 0
    page.click("g.site", 1)
    assert page.run(VISIBLE) == page.run(PRESSED) == 1
    page.run("document.querySelectorAll('g.site')[1].focus()")
    page.press("ArrowRight")
    assert page.run(FOCUSED) == 2 % sites
    page.press("Enter")
    assert page.run(VISIBLE) == page.run(PRESSED) == 2 % sites
    page.press("ArrowLeft")
    page.press(" ")
    assert page.run(VISIBLE) == 1
    page.press("Tab")
    assert page.run(FOCUSED) == (2 if sites > 2 else -1)
    steps = page.run("document.querySelectorAll('details.step').length")
    assert steps and page.run(OPEN) == 0
    page.click("details.step > summary", steps - 1)
    assert page.run(OPEN) == 1
    page.click("#open-all")
    assert page.run(OPEN) == steps
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert page.run("window.innerWidth") == width
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(STICKING_OUT) == []
    assert page.run(TOUCHING) == []
    assert page.run("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    assert page.run(CONTRAST) > 4.5
    page.run("location.hash = '#site-0'")
    page.wait(f"{VISIBLE} === 0")
    assert page.messages == [] and page.requests == []


@needs_browser
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [schools_report, groups_report, closed_report], ids=["schools", "groups", "closed"])
def test_report_answers(make, width, scheme, tmp_path) -> None:
    with opened(make().save(tmp_path / "report.html"), width, scheme) as page:
        require_working(page, width, scheme)


@needs_browser
def test_printing_opens_everything(tmp_path) -> None:
    with opened(schools_report().save(tmp_path / "report.html")) as page:
        page.click("g.site", 2)
        page.run("window.dispatchEvent(new Event('beforeprint'))")
        assert page.run("document.querySelectorAll('details:not([open])').length") == 0
        assert page.run("document.querySelectorAll('.panel[hidden]').length") == 0
        page.run("window.dispatchEvent(new Event('afterprint'))")
        assert page.run(VISIBLE) == 2 and page.run(OPEN) == 0
        assert page.messages == [] and page.requests == []
