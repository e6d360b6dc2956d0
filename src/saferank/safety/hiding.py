"""Ids out of what is handed on: query ids may be the words that people typed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from saferank.safety.assessment import Assessment
from saferank.safety.changes import Change

_BYTES = 5
_HIDDEN = re.compile(r"id-[0-9a-f]{10}")


def hidden_id(text: str) -> str:
    """A short name for an id: the same everywhere, and not to be turned back into it.

    It hides an id from readers. Whoever can guess the id can also compute its name and compare.

    Examples
    --------
    >>> hidden_id("cheap flights"), hidden_id(hidden_id("cheap flights"))
    ('id-fbd1fa5db3', 'id-fbd1fa5db3')
    """
    if _HIDDEN.fullmatch(text):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES)
    return f"id-{digest.hexdigest()}"


def hide_ids(assessment: Assessment) -> Assessment:
    """The assessment with a hash in place of every query and document id, and nothing else changed.

    Parameters
    ----------
    assessment
        As `assess` returns it; ids that are hidden already stay as they are.

    Returns
    -------
    Assessment
        What `saferank certify --hide-ids` saves and `saferank report --hide-ids` shows.
    """
    certificate = assessment.certificate
    hidden = replace(
        certificate,
        worst=tuple(map(_hide, certificate.worst)),
        visited=tuple(map(_hide, certificate.visited)),
    )
    return replace(assessment, certificate=hidden)


def _hide(change: Change) -> Change:
    moved = tuple(
        replace(document, document=hidden_id(document.document)) for document in change.moved
    )
    return replace(change, query=hidden_id(change.query), moved=moved)
