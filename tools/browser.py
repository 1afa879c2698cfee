"""Chromium without a window, driven by its DevTools protocol over the websocket client of Tornado, which Jupyter brings.

with Browser() as browser:
    browser.open(path)
    browser.evaluate("document.title")
"""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from tornado.websocket import websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing is asked of the network, nor of a screen; a container's root has no sandbox, and only the book's own files are opened.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio")
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
PATIENCE = 240  # seconds, for a machine that has much else to do
HEIGHT = 300  # of the window, in pixels: what is in it is painted, which takes most of the time


class Unavailable(Exception):
    """There is no browser, or no built book, and why."""


def find() -> str:
    """The command of a Chromium.

    Returns:
        The one that the variable `CHROMIUM` names, or the first on the path.

    Raises:
        Unavailable: there is none.
    """
    found = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CHROMIUM"), *NAMES)))), None)
    if found is None:
        raise Unavailable(f"no Chromium: wanted one of {', '.join(NAMES)} on the path, or its path in CHROMIUM")
    return found


class Browser:
    """A Chromium with one page.

    Args:
        patience: seconds for an answer, or for a page to load.

    Attributes:
        faults: what went wrong on the page that is open: messages, exceptions, what was asked of the network or not found.
    """

    def __init__(self, patience: float = PATIENCE):
        self._patience = patience
        self.faults: list[str] = []
        self._command, self._folder = find(), tempfile.mkdtemp(prefix="browser-")
        self._loop, self._number = asyncio.new_event_loop(), 0
        self._loaded = False

    def __enter__(self) -> "Browser":
        options = [*FLAGS, OFFLINE, "--remote-debugging-port=0", f"--user-data-dir={self._folder}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([self._command, *options], **quiet)
        try:
            self._socket = self._run(websocket_connect, self._page(), max_message_size=2**30)
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._end()

    def call(self, method: str, **parameters) -> dict:
        """Call a method of the protocol.

        Args:
            method: such as "Page.navigate".
            parameters: of the method.

        Returns:
            Its result.

        Raises:
            RuntimeError: the browser refused.
            TimeoutError: it did not answer.
        """
        self._number += 1
        number = self._number
        self._run(self._socket.write_message, json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := self._receive()).get("id") != number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def open(self, path: Path, query: str = "") -> None:
        """Open a file and wait until it has loaded.

        Args:
            path: of the page.
            query: after the question mark.
        """
        self.faults, self._loaded = [], False
        self.call("Page.navigate", url=path.absolute().as_uri() + query)
        while not self._loaded:
            self._receive()

    def evaluate(self, script: str):
        """The value of a JavaScript expression; of what it promises, where it does.

        Args:
            script: an expression.

        Returns:
            A number, text, list or dictionary.

        Raises:
            RuntimeError: it threw.
        """
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(_said(found["exceptionDetails"]))
        return found["result"].get("value")

    def look(self, width: int, theme: str) -> None:
        """Set the window and what the reader prefers; returns when the page is laid out anew.

        Args:
            width: in pixels; below 600 it is a phone's.
            theme: "light" or "dark".
        """
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def press(self, key: str) -> None:
        """Press a key where the focus is.

        Args:
            key: such as "Home".
        """
        code = {"End": 35, "Home": 36}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def _receive(self) -> dict:
        """The next message; what it says about the page is noted."""
        text = self._run(self._socket.read_message)
        if text is None:
            raise RuntimeError(f"{self._command} ended")
        message = json.loads(text)
        method, facts = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.faults.append(f"exception: {_said(facts['exceptionDetails'])}")
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "assert"):
            words = " ".join(str(one.get("value", one.get("description", ""))) for one in facts["args"])
            self.faults.append(f"console: {words}")
        elif method == "Log.entryAdded" and facts["entry"]["level"] == "error":
            entry = facts["entry"]
            self.faults.append(f"console: {entry['text']} {entry.get('url', '')}")
        elif method == "Network.requestWillBeSent":
            address = facts["request"]["url"]
            if not address.startswith(("file:", "data:", "blob:", "about:")):
                self.faults.append(f"asks the network for {address}")
        return message

    def _page(self) -> str:
        """The address of the page's websocket, once the browser says on which port it listens."""
        port, until = Path(self._folder) / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not (port.is_file() and port.read_text().count("\n")):
            if self._process.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"{self._command} did not start")
            time.sleep(0.05)
        with urlopen(f"http://127.0.0.1:{port.read_text().split()[0]}/json/list", timeout=PATIENCE) as answer:
            return next(one["webSocketDebuggerUrl"] for one in json.load(answer) if one["type"] == "page")

    def _run(self, function, *arguments, **options):
        """What a function of the websocket promises."""

        async def one():
            return await asyncio.wait_for(function(*arguments, **options), self._patience)

        return self._loop.run_until_complete(one())

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _said(details: dict) -> str:
    return details.get("exception", {}).get("description", details["text"]).splitlines()[0]
