"""What can be asked of the endpoint, and what it keeps up while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from saferank.errors import InputError, SaferankError, require
from saferank.serving.endpoint.answers import json_answer, problem_answer, status_page
from saferank.serving.endpoint.json_bodies import JsonReader
from saferank.serving.endpoint.meters import Meters
from saferank.serving.endpoint.problems import ProblemError
from saferank.serving.endpoint.ranking_requests import (
    ARROW,
    JSON,
    Limits,
    RankingRequest,
    check_id,
    parse_request,
)
from saferank.serving.endpoint.served_log import WINDOW, join_clicks
from saferank.serving.endpoint.served_rankers import ServedRankers
from saferank.serving.endpoint.shown_log import Click, RowLog, ShownList, click_log, shown_log

_AT_ONCE: Final = 1000
"""Documents up to which a request is answered without a thread of its own."""
_REQUEST_ID: Final = re.compile("[0-9a-f]{32}")
_LOG = logging.getLogger("saferank.serve")


@dataclass(frozen=True)
class Logging:
    """Where what was shown is written, and how often."""

    folder: Path
    seconds: float = 30.0
    """After which rows become a file."""
    click_window: float = WINDOW
    """Seconds in which clicks on what was shown may come."""


Handler = Callable[[Request, str], Awaitable[Response]]


@dataclass(eq=False)
class Endpoint:
    """What the routes share."""

    rankers: ServedRankers
    limits: Limits
    token: str | None
    log: Logging | None
    reload_seconds: float
    meters: Meters = field(default_factory=Meters)
    reader: JsonReader = field(default_factory=JsonReader)

    def __post_init__(self) -> None:
        self.shown: RowLog | None = None
        self.clicks: RowLog | None = None
        if self.log is not None:
            self.shown = shown_log(self.log.folder, seconds=self.log.seconds)
            self.clicks = click_log(self.log.folder, seconds=self.log.seconds)

    def routes(self) -> list[Route]:
        """All that can be asked for."""
        page, policy = status_page()

        async def show_page(request: Request, request_id: str) -> Response:
            del request, request_id
            headers = {"content-security-policy": policy, "x-content-type-options": "nosniff"}
            return Response(page, media_type="text/html", headers=headers)

        return [
            Route("/rank", self._run("rank", self.rank), methods=["POST"]),
            Route("/clicks", self._run("clicks", self.click), methods=["POST"]),
            Route("/rankers", self._run("rankers", self.describe)),
            Route("/health", self._run("health", self.health, is_open=True)),
            Route("/ready", self._run("ready", self.ready, is_open=True)),
            Route("/metrics", self._run("metrics", self.metrics)),
            Route("/status.json", self._run("status", self.status)),
            Route("/", self._run("page", show_page, is_open=True)),
        ]

    def _run(
        self, route: str, handler: Handler, *, is_open: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route: who may ask, what went wrong, and how long it took."""

        async def run(request: Request) -> Response:
            start, request_id = time.perf_counter(), uuid.uuid4().hex
            try:
                if not is_open:
                    self._check_token(request)
                response = await handler(request, request_id)
            except ProblemError as problem:
                response = problem_answer(problem, request_id)
            except InputError as error:
                response = problem_answer(ProblemError(400, str(error)), request_id)
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception:
                _LOG.exception("failed", extra={"request_id": request_id, "route": route})
                said = ProblemError(500, "the server failed; its log says why.")
                response = problem_answer(said, request_id)
            response.headers["x-request-id"] = request_id
            self.meters.answered(route, response.status_code, time.perf_counter() - start)
            return response

        return run

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.encode(), self.token.encode())
        if scheme.lower() != "bearer" or not same:
            headers = {"www-authenticate": "Bearer"}
            raise ProblemError(401, "a bearer token must be given, and be the right one.", headers)

    async def rank(self, request: Request, request_id: str) -> Response:
        """POST /rank: the documents of a query, ranked for a session."""
        kind = _kind(request, (JSON, ARROW))
        body = await self._body(request)
        options = request.query_params if kind == ARROW else {}
        asked = parse_request(body, kind, options, self.limits, self.reader)
        return self._answer(request_id, asked, await self._served(asked, request_id))

    async def _served(self, asked: RankingRequest, request_id: str) -> ShownList:
        loaded = self.rankers.get(asked.ranker)
        if loaded is None:
            raise ProblemError(404, f"there is no ranker {asked.ranker!r}; /rankers lists them.")
        name, run = loaded
        session = request_id if asked.session_id is None else asked.session_id
        if asked.documents <= _AT_ONCE:
            shown = run.rank(asked, session)
        else:
            work = asyncio.to_thread(run.rank, asked, session)
            try:
                shown = await asyncio.wait_for(work, self.limits.seconds)
            except TimeoutError as error:
                limit = f"{self.limits.seconds:g} seconds"
                raise ProblemError(503, f"the answer took longer than {limit}.") from error
        return ShownList(
            request_id, session, asked.query_id, name, run.fingerprint, shown, time.time()
        )

    def _answer(self, request_id: str, asked: RankingRequest, listed: ShownList) -> Response:
        shown = listed.shown
        self.meters.shown(listed.ranker, shown.arm, shown.share, asked.documents)
        if self.shown is not None:
            self.shown.add(listed)
        rows = zip(shown.doc_ids, shown.scores.tolist(), shown.propensities, strict=True)
        return json_answer(
            {
                "request_id": request_id,
                "query_id": listed.query_id,
                "session_id": listed.session_id,
                "ranker": listed.ranker,
                "fingerprint": listed.fingerprint,
                "arm": shown.arm,
                "share": shown.share,
                "documents": [
                    {"doc_id": doc_id, "rank": rank, "score": score, "propensity": chance}
                    for rank, (doc_id, score, chance) in enumerate(rows, start=1)
                ],
            }
        )

    async def click(self, request: Request, request_id: str) -> Response:
        """POST /clicks: which documents of which answered requests were clicked."""
        del request_id
        _kind(request, (JSON,))
        if self.clicks is None:
            raise ProblemError(404, "clicks are not logged: start the server with --log FOLDER.")
        record = self.reader.read(await self._body(request), ("request_id", "doc_id", "clicks"))
        several = record.get("clicks", [record])
        fits = isinstance(several, list) and 0 < len(several) <= self.limits.documents
        require(fits, "clicks", f"a list of 1 to {self.limits.documents:,} clicks", several)
        now = time.time()
        clicks = [_click(each, now) for each in several]
        for each in clicks:
            self.clicks.add(each)
        self.meters.clicked(len(clicks))
        return json_answer({"accepted": len(clicks)}, 202)

    async def describe(self, request: Request, request_id: str) -> Response:
        """GET /rankers: what is served, and what requests must bring."""
        del request, request_id
        return json_answer({name: run.describe() for name, run in self.rankers.current().items()})

    async def health(self, request: Request, request_id: str) -> Response:
        """GET /health: the process answers."""
        del request, request_id
        return json_answer({"status": "alive"})

    async def ready(self, request: Request, request_id: str) -> Response:
        """GET /ready: requests can be answered, and what is shown can be logged."""
        del request, request_id
        logs = [log for log in (self.shown, self.clicks) if log is not None and log.problem]
        if logs:
            raise ProblemError(503, f"the log cannot be written: {logs[0].problem}")
        return json_answer({"status": "ready", "rankers": list(self.rankers.current())})

    async def metrics(self, request: Request, request_id: str) -> Response:
        """GET /metrics: for Prometheus."""
        del request, request_id
        text, kind = self.meters.text()
        return Response(text, headers={"content-type": kind})

    async def status(self, request: Request, request_id: str) -> Response:
        """GET /status.json: for the status page."""
        del request, request_id
        current = self.rankers.current()
        problems = [f"{name}: {why}" for name, why in self.rankers.problems.items()]
        problems += [f"{log.problem}" for log in (self.shown, self.clicks) if log and log.problem]
        served = {name: {"served": run.way} for name, run in current.items()}
        return json_answer({"rankers": served, "problems": problems, **self.meters.status()})

    async def _body(self, request: Request) -> bytes:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self.limits.body:
            raise self._too_large()
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > self.limits.body:
                        raise self._too_large()
                    parts.append(part)
        except TimeoutError as error:
            raise ProblemError(408, "the body took too long to arrive.") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self) -> ProblemError:
        return ProblemError(413, f"the body must be at most {self.limits.body:,} bytes.")

    def lifespan(self) -> Lifespan[Starlette]:
        """Keep logs and rankers up to date while the app runs; write all that waits at its end."""

        @contextlib.asynccontextmanager
        async def running(app: Starlette) -> AsyncIterator[None]:
            del app
            keeper = asyncio.create_task(self._keep())
            try:
                yield
            finally:
                keeper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await keeper
                await asyncio.to_thread(self._roll, True)

        return running

    async def _keep(self) -> None:
        """Files of the log, runs that changed, clicks that have come: each in its time."""
        looked = joined = time.monotonic()
        while True:
            await asyncio.sleep(min(0.5, self.reload_seconds))
            try:
                await asyncio.to_thread(self._roll)
                now = time.monotonic()
                if now - looked >= self.reload_seconds:
                    looked = now
                    self.meters.reloaded(len(await asyncio.to_thread(self.rankers.refresh)))
                if self.log is not None and now - joined >= self.log.seconds:
                    joined = now
                    await asyncio.to_thread(
                        join_clicks, self.log.folder, window=self.log.click_window
                    )
            except (SaferankError, OSError):
                _LOG.exception("upkeep failed")

    def _roll(self, at_the_end: bool = False) -> None:
        for log in (self.shown, self.clicks):
            if log is not None and (at_the_end or log.due):
                written, lost = log.written, log.lost
                log.roll()
                self.meters.rolled(log.written - written, log.lost - lost)


def _click(record: Any, now: float) -> Click:
    valid = isinstance(record, dict) and set(record) == {"request_id", "doc_id"}
    require(valid, "clicks", "objects of request_id and doc_id", record)
    request = record["request_id"]
    # whether it was answered cannot be known here: another worker may have done so
    usable = isinstance(request, str) and _REQUEST_ID.fullmatch(request) is not None
    require(usable, "request_id", "that of an answer: 32 digits from 0 to f", request)
    return Click(request, check_id(record["doc_id"], "doc_id"), now)


def _kind(request: Request, kinds: tuple[str, ...]) -> str:
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind not in kinds:
        raise ProblemError(415, f"the body must be {' or '.join(kinds)}.")
    return kind
