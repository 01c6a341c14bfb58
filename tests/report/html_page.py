"""A page as its elements, and what holds of every report: it is one file that asks for nothing."""

import re
from html import unescape
from html.parser import HTMLParser

VOID = {"meta", "br"}


class HtmlPage(HTMLParser):
    """Elements with their attributes, texts by element, and whether elements close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[tuple[str, str]] = []
        self._rows = re.findall(r"<tr>(.*?)</tr>", html)
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    @property
    def text(self) -> str:
        """All texts, one after another."""
        return "".join(text for _, text in self.texts)

    def rows(self) -> list[list[str]]:
        """The texts of the cells of each row of a table."""
        return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in self._rows]

    def found(self, tag, **attributes):
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in attributes.items())]


def require_alone(html: str) -> None:
    """Nothing is loaded: no address, no file, no style or script but its own, and a policy that forbids all else."""
    page = HtmlPage(html)
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1998/Math/MathML",
    }
    assert not [a for _, a in page.elements for key in ("src", "srcset", "action", "data") if key in a]
    assert not page.found("link") and not page.found("img") and not page.found("iframe")
    assert "url(" not in html.replace("url(#tip)", "") and "@import" not in html
    (policy,) = page.found("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in policy["content"] and "unsafe" not in policy["content"]
    assert not [a for _, a in page.elements if "style" in a or any(key.startswith("on") for key in a)]
