"""`saferank serve`: an endpoint that serves what was certified and logs what it showed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN...",
        help="Folders of certified rankers; requests choose one by name, else the first.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class _Served:
    """What is served."""

    production: Annotated[
        Path | None,
        typer.Option(
            help="Production's saved ranker or LightGBM file, where they were certified against "
            "one; else requests carry production's scores.",
            show_default=False,
        ),
    ] = None
    uncertified: Annotated[
        bool,
        typer.Option("--uncertified", help="Serve although it was not certified to be shipped."),
    ] = False
    reload: Annotated[
        float, typer.Option(help="Seconds after which runs are looked at for changes.")
    ] = 2.0

    def settings(self, runs: dict[str, Path]) -> dict[str, Any]:
        """Arguments of the app."""
        return {
            "runs": {name: str(path) for name, path in runs.items()},
            "production": None if self.production is None else str(self.production),
            "uncertified": self.uncertified,
            "reload_seconds": self.reload,
        }


@dataclass(frozen=True)
class _Logged:
    """What is logged."""

    log: Annotated[
        Path | None,
        typer.Option(help="Folder to log in what was shown and clicked.", show_default=False),
    ] = None
    roll: Annotated[float, typer.Option(help="Seconds after which a file is written.")] = 30.0
    click_window: Annotated[
        float, typer.Option(help="Seconds that clicks on what was shown are waited for.")
    ] = 1800.0

    def settings(self) -> dict[str, Any] | None:
        """Arguments of the log; None where there is none."""
        if self.log is None:
            return None
        return {
            "folder": str(self.log),
            "options": {"seconds": self.roll, "click_window": self.click_window},
        }


@dataclass(frozen=True)
class _Server:
    """Where, and within which limits."""

    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one of the machine.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen at.")] = 8000
    workers: Annotated[int, typer.Option(help="Processes.")] = 1
    max_body: Annotated[int, typer.Option(help="Bytes of a request at most.")] = 16 << 20
    max_documents: Annotated[int, typer.Option(help="Documents of a request at most.")] = 10_000
    timeout: Annotated[
        float, typer.Option(help="Seconds to receive a request, or to answer a large one.")
    ] = 10.0

    def run(self, app: Any) -> None:
        """Run an app, or the one of that name in several processes, until a signal comes."""
        import uvicorn

        config: dict[str, Any] = {
            "host": self.host, "port": self.port, "access_log": False, "log_config": None,
            "lifespan": "on", "timeout_graceful_shutdown": 30, "server_header": False,
            "date_header": False,
        }  # fmt: skip
        with _shared_meters(self.workers), _quiet_signals():
            if self.workers == 1:
                uvicorn.Server(uvicorn.Config(app, **config)).run()
            else:
                uvicorn.run(app, factory=True, workers=self.workers, **config)


def serve(runs: Runs, served: _Served, logged: _Logged, server: _Server) -> None:
    """Serve rankings over HTTP as they were certified, and log them for `saferank count`.

    POST /rank has query_id, session_id, doc_ids and features; POST /clicks has request_id and
    doc_id. With the variable SAFERANK_TOKEN requests need it as a bearer token. Runs that are
    written again are read again, without a request lost.

    Example: saferank serve run --log served --port 8000
    """
    from saferank.errors import MissingExtraError, require
    from saferank.serving.endpoint.ranking_requests import Limits
    from saferank.serving.endpoint.served_rankers import runs_of
    from saferank.serving.endpoint.served_run import ServedRun

    # one request, one core: other cores are for other workers
    os.environ.setdefault("SAFERANK_THREADS", "1")
    try:
        from saferank.serving.app import SETTINGS, app_from_environment
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "starlette", "serve") from error
    require(server.workers >= 1, "workers", "at least 1", server.workers)
    named = runs_of(runs)
    settings = {
        "app": served.settings(named),
        "limits": vars(Limits(server.max_body, server.max_documents, server.timeout)),
        "log": logged.settings(),
    }
    os.environ[SETTINGS] = json.dumps(settings)
    app: Any = "saferank.serving.app:app_from_environment"
    if server.workers == 1:
        app = app_from_environment()
    for path in named.values() if server.workers > 1 else ():  # refused here, not in the workers
        ServedRun.load(path, production=served.production, uncertified=served.uncertified)
    typer.echo(f"Serving {', '.join(named)} at http://{server.host}:{server.port}.", err=True)
    server.run(app)


@contextmanager
def _shared_meters(workers: int) -> Iterator[None]:
    """A folder through which processes add up their metrics."""
    from saferank._core.scratch import scratch_folder

    if workers == 1:
        yield
        return
    with scratch_folder() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """The server ends by signals, after what is under way: that is how it is meant to end.

    It raises them again when it is done, for those who started it.
    """
    before = {
        number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
