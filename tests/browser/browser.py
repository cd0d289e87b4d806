# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, by its own protocol over a pipe: no port, no driver, no package of Python's."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MAX_PICTURE_HEIGHT = 8000  # Chromium draws no picture of more than 16,384 pixels
VIRTUAL_KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def find_chromium():
    """The path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser(contextlib.AbstractContextManager):
    """One browser with one page. Everything that the page requests and complains about is kept."""

    def __init__(self, program):
        self._stack = contextlib.ExitStack()
        profile = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The protocol is spoken over descriptors 3 and 4.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                 "--remote-debugging-pipe", f"--user-data-dir={profile}"]  # fmt: skip
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, program, *flags],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._next = 0
        self._events = []
        self.requests = []
        self.complaints = []
        target = self._call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._stack.close()

    def call(self, method, **parameters):
        """Blocks until the browser has answered."""
        return self._call(method, parameters, self._session)

    def _call(self, method, parameters, session):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._take(answer)

    def _read(self):
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"the browser ended with {self._process.wait()}")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _take(self, event):
        self._events.append(event.get("method"))
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    def open(self, path, await_paint=True):
        """Opens a file; returns when it is loaded, its scripts have run, and it is painted. Without scripts: `await_paint` is False."""
        self.requests.clear()
        self.complaints.clear()
        self._events.clear()
        answer = self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        if "errorText" in answer:
            raise RuntimeError(f"{path}: {answer['errorText']}")
        while "Page.loadEventFired" not in self._events:
            self._take(self._read())
        if await_paint:
            self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression):
        """The value of a JavaScript expression, or of its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, media="", scheme="light"):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key):
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"key": key, "code": key, "windowsVirtualKeyCode": VIRTUAL_KEYS.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def screenshot(self, path, clip=None):
        """PNG of the page, or of the rectangle `clip` of it (x, y, width, height)."""
        if not clip:
            root = "document.documentElement"
            width, height = self.evaluate(f"[{root}.scrollWidth, {root}.scrollHeight]")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, MAX_PICTURE_HEIGHT)}
        parameters = {"format": "png", "captureBeyondViewport": True, "clip": {**clip, "scale": 1}}
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **parameters)["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])
