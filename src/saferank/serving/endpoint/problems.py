"""What went wrong with a request, as application/problem+json (RFC 9457): one sentence each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from saferank.errors import shorten


class ProblemError(Exception):
    """An answer that is an error: its status and a sentence."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = shorten(detail)
        self.headers = headers or {}

    def to_dict(self, request_id: str) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
        }
