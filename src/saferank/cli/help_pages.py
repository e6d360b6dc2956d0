"""Which page of the documentation explains a command, named where a person is told of a fault."""

from __future__ import annotations

from typing import Final

PAGES: Final = {
    "demo": "tutorials/first-ranker",
    "simulate": "clicks",
    "count": "your-own-log",
    "shard": "scale",
    "bias": "clicks",
    "learn": "methods",
    "certify": "safety",
    "compare": "evaluation",
    "rank": "serving",
    "explore": "exploration",
    "export": "serving",
    "report": "safety",
    "serve": "serving",
    "watch": "serving",
    "reproduce": "study",
    "data": "your-own-log",
    "logs": "your-own-log",
}
"""By command."""


def page_of(arguments: list[str]) -> str | None:
    """The page for a command line, or None where no command is named.

    >>> page_of(["certify", "run"])
    'docs/safety.md'
    """
    name = next((PAGES[word] for word in arguments[:1] if word in PAGES), None)
    return None if name is None else f"docs/{name}.md"
