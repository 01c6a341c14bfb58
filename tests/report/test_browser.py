"""A report in a browser: no error, nothing refused by its policy, and the graph answers to a click and to keys."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fubini as fb
from fubini.report import document
from tests.report.examples import schools_draws, schools_post, schools_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

# What a reader does: a click on the second site, Enter on the third, Space on the fourth, and all steps opened.
ACTIONS = """
const said = [];
const visible = () => panels.findIndex((panel) => !panel.hidden);
said.push(visible());
nodes[1].dispatchEvent(new MouseEvent("click", {bubbles: true}));
said.push(visible());
nodes[2].focus();
said.push(nodes.indexOf(document.activeElement));
nodes[2].dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
said.push(visible());
nodes[3].dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true}));
said.push(visible());
nodes[3].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
said.push(nodes.indexOf(document.activeElement));
said.push(nodes.map((node) => node.getAttribute("aria-pressed") === "true").indexOf(true));
openAll.click();
said.push(steps.filter((step) => step.open).length);
window.dispatchEvent(new Event("beforeprint"));
said.push(document.querySelectorAll("details:not([open])").length);
said.push(panels.filter((panel) => panel.hidden).length);
window.dispatchEvent(new Event("afterprint"));
said.push(visible());
said.push(document.documentElement.scrollWidth <= window.innerWidth);
document.title = "said " + said.join(" ");
"""


def opened(path: Path, *options: str, fragment: str = "") -> str:
    """The page after its script has run; fails where the console has a message."""
    command = [str(BROWSER), *OPTIONS, *options, "--dump-dom", f"{path.as_uri()}{fragment}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not messages, messages
    assert done.stdout, done.stderr
    return done.stdout


@needs_browser
def test_report_opens_without_errors(tmp_path) -> None:
    page = opened(schools_report().save(tmp_path / "report.html"), fragment="#site-2")
    shown = re.findall(r'<article id="site-(\d)" class="panel"( hidden="")?>', page)
    assert [place for place, hidden in shown if not hidden] == ["2"]


@needs_browser
def test_graph_answers_to_a_click_and_to_keys(tmp_path, monkeypatch) -> None:
    own = document._file
    monkeypatch.setattr(document, "_file", lambda name: own(name) + (ACTIONS if name == "page.js" else ""))
    path = fb.report(schools_post(), schools_draws()).save(tmp_path / "report.html")
    page = opened(path, "--window-size=500,900")
    assert "<title>said 0 1 2 2 3 0 3 2 0 0 3 true</title>" in page
