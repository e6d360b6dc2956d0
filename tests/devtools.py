"""Chromium driven over its debugging pipe: keys that are pressed, media, pictures, prints."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def browser() -> str:
    """Where Chromium is; without it the test is skipped, but never where CI=true."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        assert os.environ.get("CI") != "true", "Chromium must be installed where CI=true"
        pytest.skip("no chromium here: apt-get install chromium to open the page in a test")
    return found


class Tab:
    """One page; messages are JSON between zero bytes."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.numbers, self.rest, self.session = itertools.count(1), b"", None

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        number = next(self.numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.reading, 1 << 20)
                assert got, "Chromium ended"
                self.rest += got
            line, self.rest = self.rest.split(b"\0", 1)
            told = json.loads(line)
            if told.get("id") == number:
                assert "error" not in told, told
                return dict(told["result"])

    def open(self, page: Path) -> None:
        """Go to a page, and wait until its charts are drawn."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        self.send("Page.enable")
        self.send("Page.navigate", url=page.as_uri())
        end = time.monotonic() + 120
        while not self.ask("document.documentElement.dataset.charts ?? ''"):
            assert time.monotonic() < end, "the charts were not drawn"
            time.sleep(0.05)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        return told["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key, as a person does."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        own: dict[str, Any] = {
            "key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code,
            "modifiers": 8 if shift else 0,
        }  # fmt: skip
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **own)
        self.send("Input.dispatchKeyEvent", type="keyUp", **own)


@contextmanager
def tab(page: Path, profile: Path) -> Iterator[Tab]:
    """A page in a browser of its own, which ends with the block."""
    chromium = browser()
    to_it, from_it = os.pipe(), os.pipe()

    def three_and_four() -> None:
        # Chromium reads from 3 and writes to 4; by way of high numbers, which neither is
        high = os.dup2(to_it[0], 100), os.dup2(from_it[1], 101)
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [chromium, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
        preexec_fn=three_and_four, close_fds=False, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_it[0])
    os.close(from_it[1])
    try:
        opened = Tab(from_it[0], to_it[1])
        opened.open(page)
        yield opened
    finally:
        process.kill()
        process.wait(timeout=30)
        os.close(to_it[1])
        os.close(from_it[0])
