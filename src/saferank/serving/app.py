"""The endpoint as an ASGI app: rankings as certified, and a log that `saferank count` reads.

`saferank serve` runs it; with a server or routes of one's own: `create_app`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from saferank.errors import MissingExtraError, require
from saferank.serving.endpoint.answers import refuse
from saferank.serving.endpoint.log_lines import log_in_lines
from saferank.serving.endpoint.ranking_requests import Limits
from saferank.serving.endpoint.routes import Endpoint, Logging
from saferank.serving.endpoint.served_rankers import ServedRankers, runs_of
from saferank.serving.endpoint.served_run import ServedRun

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
except ImportError as _error:
    raise MissingExtraError("starlette", "serve") from _error

__all__ = ["Limits", "Logging", "app_from_environment", "create_app"]

SETTINGS: Final = "SAFERANK_SERVE"
"""The variable by which `saferank serve` tells its workers what to serve."""
TOKEN: Final = "SAFERANK_TOKEN"  # noqa: S105
"""The variable that holds the bearer token, where one is asked for."""


def create_app(
    runs: str | Path | Mapping[str, str | Path],
    *,
    production: str | Path | None = None,
    uncertified: bool = False,
    log: str | Path | Logging | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    reload_seconds: float = 2.0,
) -> Starlette:
    """An ASGI app that serves rankers as they were certified.

    Parameters
    ----------
    runs
        A run, or several by name; the first is served where a request names none.
    production
        Production's ranker, where they were certified against one; else requests have its scores.
    uncertified
        Serve also what was not certified, or found not fit to be shipped.
    log
        Folder for what was shown and clicked; None: nothing is logged.
    token
        What requests must bring as a bearer token, but for /health and /ready.
    limits
        What a request may cost.
    reload_seconds
        How often runs are looked at for changes.

    Returns
    -------
    Starlette
        To be run by uvicorn or another ASGI server, or mounted in an app of one's own.

    Raises
    ------
    InputError
        Where a run cannot be served.
    """
    paths = {str(k): Path(v) for k, v in runs.items()} if isinstance(runs, Mapping) else None

    def load(run: Path) -> ServedRun:
        return ServedRun.load(run, production=production, uncertified=uncertified)

    rankers = ServedRankers(paths or runs_of([str(runs)]), load)
    rankers.start()
    if log is not None and not isinstance(log, Logging):
        log = Logging(Path(log))
    require(token is None or len(token) >= 16, "token", "of at least 16 characters", "a short one")
    endpoint = Endpoint(rankers, limits or Limits(), token, log, reload_seconds)
    return Starlette(
        routes=endpoint.routes(),
        lifespan=endpoint.lifespan(),
        exception_handlers={HTTPException: refuse},
    )


def app_from_environment() -> Starlette:
    """The app that `saferank serve` asks its workers for."""
    log_in_lines()
    _end_with_parent()
    given = json.loads(os.environ[SETTINGS])
    logged = given.pop("log")
    return create_app(
        **given["app"],
        limits=Limits(**given["limits"]),
        log=None if logged is None else Logging(Path(logged["folder"]), **logged["options"]),
        token=os.environ.get(TOKEN) or None,
    )


def _end_with_parent() -> None:
    """End a worker in good order once the process that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()
