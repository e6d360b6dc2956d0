"""An ASGI app called without a network: request bytes to response bytes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Calls an app on an event loop of its own; as a context with its lifespan."""

    def __init__(self, app: Any) -> None:
        self.app, self.runner = app, asyncio.Runner()

    def __enter__(self) -> Client:
        self.runner.__enter__()
        self.inbox: asyncio.Queue = asyncio.Queue()
        self.outbox: asyncio.Queue = asyncio.Queue()
        self.task = None

        async def start() -> None:
            scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
            self.task = asyncio.create_task(self.app(scope, self.inbox.get, self.outbox.put))
            await self.inbox.put({"type": "lifespan.startup"})
            assert (await self.outbox.get())["type"] == "lifespan.startup.complete"

        self.runner.run(start())
        return self

    def __exit__(self, *error: object) -> None:
        async def stop() -> None:
            await self.inbox.put({"type": "lifespan.shutdown"})
            assert (await self.outbox.get())["type"] == "lifespan.shutdown.complete"
            await self.task

        self.runner.run(stop())
        self.runner.__exit__(None, None, None)

    def wait(self, seconds: float) -> None:
        """Let the app's own tasks run."""
        self.runner.run(asyncio.sleep(seconds))

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.runner.run(self.call("POST", path, [given], headers))

    def get(self, path: str, **headers: str) -> Answer:
        return self.runner.run(self.call("GET", path, [b""], headers))

    async def call(self, method: str, path: str, parts: list, headers: dict) -> Answer:
        """One request; a part of the body that is a number is waited for."""
        address = urlsplit(path)
        names = {key.replace("_", "-").lower(): value for key, value in headers.items()}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": address.path, "raw_path": address.path.encode(),
            "query_string": address.query.encode(), "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in names.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        waiting, sent = list(parts), []

        async def receive() -> dict:
            while waiting and not isinstance(waiting[0], bytes):
                await asyncio.sleep(waiting.pop(0))
            if not waiting:
                return {"type": "http.disconnect"}
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting)}

        async def send(message: dict) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = sent[0]
        body = b"".join(message.get("body", b"") for message in sent[1:])
        known = {key.decode(): value.decode() for key, value in start["headers"]}
        return Answer(start["status"], known, body)
