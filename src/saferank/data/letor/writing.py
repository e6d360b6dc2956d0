"""Ranking data as LETOR text, which `read_letor` reads back bit by bit."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.files import atomic_file
from saferank._core.flat import require_each
from saferank.data.letor.parsing import ID_LIMIT
from saferank.data.ranking import RankingData
from saferank.errors import require

_WORD = re.compile(r"[^\x00-\x20:#\x7f]+")


def write_letor(data: RankingData, path: str | Path) -> None:
    """Write labelled data as LETOR text, gzipped if the name ends with `.gz`.

    Zeros are left out, but for the last feature, so that the number of features is kept.

    Parameters
    ----------
    data
        Labelled items of numbers.
    path
        The file; gzipped if its name ends with .gz.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "small.txt"
    >>> write_letor(RankingData([[0.5, 0.0]], [0, 1], labels=[1]), path)
    >>> path.read_text()
    '1 qid:0 1:0.5 2:0\\n'
    """
    target = Path(path)
    with atomic_file(target) as temporary:
        opened: Any = gzip.open if target.suffix == ".gz" else open
        with opened(temporary, "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(_lines(data))


def _lines(data: RankingData) -> Iterator[str]:
    labels = data.known_labels
    given = ~np.isnan(data.features)
    require_each(given, "features", "without missing values for LETOR text", data.features)
    queries, documents = data.ids()
    for query, (first, last) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        name = _word("query_ids", queries[query])
        for row in range(first, last):
            values = data.features[row]
            named = values != 0
            named[-1:] = True
            words = (
                f"{index + 1}:{value:.9g}"
                for index, value in zip(
                    np.flatnonzero(named).tolist(), values[named].tolist(), strict=True
                )
            )
            comment = (
                "" if data.doc_ids is None else f" #docid = {_word('doc_ids', documents[row])}"
            )
            yield f"{labels[row]:.9g} qid:{name} {' '.join(words)}{comment}\n"


def _word(name: str, identity: object) -> str:
    word = str(identity)
    good = _WORD.fullmatch(word) is not None and len(word.encode()) <= ID_LIMIT
    require(good, name, "without white space, colon and # for LETOR text", word)
    return word
