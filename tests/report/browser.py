"""Chromium without a window, driven by its DevTools protocol through two pipes: nothing is put into the page."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
# The browser reads from file 3 and writes to file 4; a program in between, as JAX warns of forks of its own process.
CONNECT = "import os, sys; r, w, *c = sys.argv[1:]; os.dup2(int(r), 3); os.dup2(int(w), 4); os.execv(c[0], c)"
PATIENCE = 60  # seconds that an answer may take

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


class Page:
    """A page that is open in a window of a given width: what it asked for, and what it wrote to the console."""

    def __init__(self, process: subprocess.Popen, reading: int, writing: int) -> None:
        self._process, self._reading, self._writing = process, reading, writing
        self._count, self._session, self._rest, self._answers = 0, None, b"", {}
        self.requests: list[str] = []
        self.messages: list[str] = []

    def open(self, path: Path, width: int, scheme: str) -> Self:
        """Open a file in a window that is so wide, light or dark."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.requests.clear()
        path = path.resolve()
        self.ask("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        assert self.requests[0] == path.as_uri()
        del self.requests[0]
        return self

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Return when an expression has become true."""
        until = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    def click(self, selector: str, place: int = 0) -> None:
        """Click into the middle of an element with the mouse."""
        element = f"document.querySelectorAll({json.dumps(selector)})[{place}]"
        self.run(f"{element}.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}})")
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({element}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key on the keyboard."""
        text = {"Enter": "\r", " ": " "}.get(key)
        codes = {"Enter": 13, " ": 32, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39}
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes[key]}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self) -> bytes:
        """All of the page as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])

    # -- the protocol ------------------------------------------------------------------------------------------------

    def ask(self, method: str, **parameters: Any) -> dict:
        """Send a command and wait for its answer; what happens meanwhile is kept."""
        self._count += 1
        command = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._writing, json.dumps(command).encode() + b"\0")
        while self._count not in self._answers:
            self._receive(method)
        answer = self._answers.pop(self._count)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def _receive(self, method: str) -> None:
        ready, _, _ = select.select([self._reading], [], [], PATIENCE)
        content = os.read(self._reading, 1 << 16) if ready else b""
        assert content, f"no answer to {method}; Chromium ended with {self._process.poll()}"
        *messages, self._rest = (self._rest + content).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._keep(message["method"], message["params"])

    def _keep(self, event: str, content: dict) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])
        elif event == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(each.get("value", each)) for each in content["args"]))
        elif event == "Runtime.exceptionThrown":
            self.messages.append(str(content["exceptionDetails"]))
        elif event == "Log.entryAdded":
            self.messages.append(content["entry"]["text"])


@contextlib.contextmanager
def opened(path: Path, width: int = 1400, scheme: str = "light") -> Iterator[Page]:
    """A file in a window of its own; Chromium is ended after it."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out))
    connected = (sys.executable, "-c", CONNECT, str(reading), str(writing))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [*connected, str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(reading, writing),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, reading, writing):
            os.close(end)
        page = Page(process, ours_in, ours_out)
        try:
            yield page.open(path, width, scheme)
        finally:
            with contextlib.suppress(Exception):
                page._session = None
                page.ask("Browser.close")
            process.terminate()
            process.wait(PATIENCE)
            os.close(ours_in)
            os.close(ours_out)
