"""Calls of an ASGI app and of a server, as cheap as they can be made for those who measure."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def caller(app: Any, path: str, body: bytes, kind: str) -> Callable[[], Awaitable[bytes]]:
    """One request to an app, from its bytes to those of the answer."""
    address, _, query = path.partition("?")
    size = str(len(body)).encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", size)]

    async def call() -> bytes:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": address, "raw_path": address.encode(), "root_path": "",
            "query_string": query.encode(), "headers": headers, "client": None, "server": None,
        }  # fmt: skip
        sent: list[Any] = []
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return given.pop() if given else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        assert sent[0]["status"] == 200, sent
        return bytes(sent[1]["body"])

    return call


async def milliseconds(calls: list[Callable[[], Awaitable[Any]]], rounds: int) -> np.ndarray:
    """Processor and wall time of each call in each round: 2 x rounds x calls, interleaved."""
    for call in calls:
        for _ in range(20):
            await call()
    times = np.empty((2, rounds, len(calls)))
    for number in range(rounds):
        for index, call in enumerate(calls):
            start = time.process_time(), time.perf_counter()
            await call()
            times[0, number, index] = time.process_time() - start[0]
            times[1, number, index] = time.perf_counter() - start[1]
    return 1000 * times


@contextlib.contextmanager
def server(*options: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`saferank serve` with these options, once it is ready, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "saferank", "serve", *map(str, options), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ))
    try:
        while True:
            assert process.poll() is None, "the server did not start"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
                break
            time.sleep(0.2)
        yield process, port
    finally:
        process.terminate()
        process.wait(timeout=60)


def http(path: str, body: bytes, kind: str) -> bytes:
    """A request as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send_all(port: int, requests: Iterator[bytes], connections: int) -> list[float]:
    """Send requests over some connections that stay open; seconds of each until its answer."""
    times: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in requests:
            start = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            assert lines[0].split()[1] == b"200", head
            times.append(time.perf_counter() - start)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return times


def save_runs(folder: Path, ranker: Any, data: Any, ways: dict[str, Any]) -> dict[str, Path]:
    """The ranker certified to be served in each way."""
    from saferank.safety import Rule, assess

    runs = {}
    for way, (deployed, rule) in ways.items():
        certified = assess(ranker, data, deployed=deployed, rule=rule or Rule(by="promise"))
        runs[way] = folder / way.replace(" ", "-")
        ranker.save(runs[way])
        certified.save(runs[way])
    return runs


def text(record: Any) -> bytes:
    """A record as JSON without blanks."""
    return json.dumps(record, separators=(",", ":")).encode()
