"""One page of a Chromium without a screen, told what to do and heard over the browser's debugging pipe. It reaches
this machine by its address; no host's name leads anywhere.

Binary: the one in PATH, else (as root) Debian's package is installed.
"""

import json
import os
import selectors
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from typing import Any, Self

import pytest

from support.installing import install, one_at_a_time

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
]
NO_HOSTS = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
PIPE = 'exec "$@" 30<&{0} 31>&{1} 3<&30 4>&31 30<&- 31>&-'
"""Chromium wants its pipe at 3 and 4, where something else may be."""
SECONDS = 60
FAULTS = {"Log.entryAdded": "error", "Runtime.consoleAPICalled": "error", "Runtime.exceptionThrown": ""}
"""Events that say that something went wrong, with what they must have in them."""

KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowUp": (38, ""), "ArrowDown": (40, "")}
"""What a keyboard says of a key that does something by itself: its number, and the text that it gives."""

Message = dict[str, Any]


def chromium() -> str:
    """Where it is."""
    with one_at_a_time():
        if not shutil.which("chromium"):
            install("chromium")
    if not (found := shutil.which("chromium")):
        pytest.skip("no Chromium: install Debian's chromium")
    return found


class Browser:
    """`requested` is every address that the page has asked for, `faults` what went wrong in it. Both grow."""

    def __init__(self, profile: Path) -> None:
        self.requested: list[str] = []
        self.faults: list[Message] = []
        self._number, self._heard, self._session = 0, b"", ""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._says = selectors.DefaultSelector()  # select() knows no file above 1,024
        self._says.register(self._in, selectors.EVENT_READ)
        command = [chromium(), *FLAGS, NO_HOSTS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        script = PIPE.format(theirs_in, theirs_out)
        with profile.with_name("chromium.log").open("wb") as log:
            ends = (theirs_in, theirs_out)
            self._process = subprocess.Popen(
                ["bash", "-c", script, "bash", *command], pass_fds=ends, stdout=log, stderr=log
            )
        for end in ends:
            os.close(end)

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._says.close()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> Message:
        """The answer to a command."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": parameters,
            **({"sessionId": self._session} if self._session else {}),
        }
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer}"
        result: Message = answer["result"]
        return result

    def open(self, address: str) -> None:
        """Back when the page and all that belongs to it has been loaded."""
        self.call("Page.navigate", url=address)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """Of JavaScript; of a promise, what it comes to."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, within: float = 240.0) -> None:
        """Until it is true. The page is asked anew now and then: it may have nothing else to say meanwhile."""
        deadline = time.monotonic() + within
        look = (
            f"new Promise(done => {{ const until = Date.now() + 5000; const look = () => {expression} ? done(true) : "
            "Date.now() > until ? done(false) : setTimeout(look, 20); look() })"
        )
        while not self.value(look):
            shown = self.value("document.body.innerText.slice(0, 2000)")
            assert time.monotonic() < deadline, f"not within {within:g} s: {expression}; shown: {shown}"

    def press(self, key: str) -> None:
        """A key, down and up again: of KEYS, or one that gives itself or nothing."""
        number, text = KEYS.get(key, (0, key if len(key) == 1 else ""))
        told = {"key": key, "code": key, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **told)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def screenshot(self, file: Path) -> None:
        """What the window shows, as a PNG."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def wide(self, pixels: int) -> None:
        """The window from now on."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=pixels, height=800, deviceScaleFactor=1, mobile=False
        )

    def _next(self) -> Message:
        while b"\0" not in self._heard:
            assert self._says.select(SECONDS), f"Chromium has said nothing for {SECONDS} s"
            piece = os.read(self._in, 1 << 16)
            assert piece, "Chromium has ended; see chromium.log"
            self._heard += piece
        text, _, self._heard = self._heard.partition(b"\0")
        message: Message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, event: Message) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(event["request"]["url"])
        elif method in FAULTS and FAULTS[method] in (
            event.get("type", ""),
            event.get("entry", {}).get("level", ""),
            "",
        ):
            self.faults.append(event)
