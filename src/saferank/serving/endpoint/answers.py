"""Answers of the endpoint: JSON, problems, and the status page with its policy."""

from __future__ import annotations

import base64
import hashlib
import uuid
from importlib import resources
from typing import Any, Final

from saferank.errors import MissingExtraError
from saferank.serving.endpoint.problems import ProblemError
from saferank.serving.endpoint.ranking_requests import JSON

try:
    import orjson
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as _error:
    raise MissingExtraError("starlette", "serve") from _error

_PROBLEM: Final = "application/problem+json"


def json_answer(record: Any, status: int = 200) -> Response:
    """A record as JSON."""
    return Response(orjson.dumps(record), status, media_type=JSON)


def problem_answer(problem: ProblemError, request_id: str) -> Response:
    """What went wrong."""
    body = orjson.dumps(problem.to_dict(request_id))
    return Response(body, problem.status, problem.headers, _PROBLEM)


async def refuse(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an unknown address or method."""
    del request
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return problem_answer(
        ProblemError(error.status_code, f"{error.detail}.", headers), uuid.uuid4().hex
    )


def status_page() -> tuple[bytes, str]:
    """The page, and a policy by which a browser runs its script and nothing else."""
    page = resources.files("saferank.serving.endpoint").joinpath("status.html").read_bytes()
    script = page.partition(b"<script>")[2].partition(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy
