"""The server's own messages: one JSON object per line, on standard error."""

from __future__ import annotations

import json
import logging
from typing import Any


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    _PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        entry |= {k: str(v) for k, v in record.__dict__.items() if k not in self._PLAIN}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_in_lines() -> None:
    """Let the endpoint and its server speak in such lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("saferank.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
