"""What counts count: clicks, purchases, or a value of which each impression has at most so much.

Bounds, variances and tests of this package are those of something that happens or does not. A value
v of at most V is therefore counted as one whole V with probability v / V, else as nothing: its mean
is v, whatever the values, and everything that is right of clicks is right of it. The price is
noise: as much as a log of Var[v] / (E[v] (V - E[v])) of the sessions would have with the values
themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from saferank.errors import InputError, require

KEY = "saferank.feedback"
"""In the metadata of counts: what they count."""
_RULE = "a 0/1 column (purchase), columns with a value each (cart=1,purchase=5), or a column of "
_RULE += "amounts with the most that counts (revenue<=200)"
_MOST_KINDS = 20


@dataclass(frozen=True)
class Feedback:
    """What counts count, by its spelling on the command line.

    Examples
    --------
    >>> Feedback("purchase").noun, Feedback("cart=1,purchase=5").unit
    ('purchases', 5.0)
    >>> Feedback("purchased").noun
    'purchased results'
    >>> revenue = Feedback("revenue<=200")
    >>> revenue.noun, revenue.unit, revenue.drawn
    ('revenue', 200.0, True)
    >>> revenue.say("Ship: clicks per session change by +3%, if the click model is right.")
    'Ship: revenue per session changes by +3%, if the click model is right.'
    """

    text: str = "click"

    def __post_init__(self) -> None:
        require(isinstance(self.text, str), "feedback", _RULE, self.text)
        values = list(self.kinds.values())
        sane = all(math.isfinite(value) and value >= 0 for value in values)
        require(sane and max(values) > 0, "feedback", "values of at least 0, one above", self.text)

    @property
    def amount(self) -> bool:
        """Whether the column has amounts instead of 0 and 1."""
        return "<=" in self.text

    @property
    def kinds(self) -> dict[str, float]:
        """Columns of the log, and what each is worth (of amounts: at most)."""
        parts = [self.text] if self.amount else self.text.split(",")
        kinds: dict[str, float] = {}
        for part in parts:
            name, sign, value = part.partition("<=" if self.amount else "=")
            name = name.strip()
            fresh = name and name not in kinds and len(kinds) < _MOST_KINDS
            require(bool(fresh), "feedback", _RULE, self.text[:80])
            kinds[name] = _number(value, self.text) if sign else 1.0
        return kinds

    @property
    def unit(self) -> float:
        """What one counted event is worth: the highest value of an impression."""
        return max(self.kinds.values())

    @property
    def drawn(self) -> bool:
        """Whether some impressions are worth neither nothing nor the highest value."""
        return self.amount or len({value for value in self.kinds.values() if value > 0}) > 1

    @property
    def noun(self) -> str:
        """What is counted, in the plural where it has one."""
        if self.amount:
            return next(iter(self.kinds))
        paid = [name for name, value in self.kinds.items() if value > 0]
        if self.unit != 1 or len(paid) > 1:
            return "value"
        if paid[0].endswith("ed"):  # a column such as `purchased` says what became of a result
            return f"{paid[0]} results"
        return paid[0] if paid[0].endswith("s") else f"{paid[0]}s"

    @property
    def is_clicks(self) -> bool:
        """Whether it is what all sentences speak of anyway."""
        return self.noun == "clicks"

    def say(self, sentence: str) -> str:
        """A sentence about clicks as one about this feedback; the click model keeps its name."""
        if self.is_clicks:
            return sentence
        whole = self.unit == 1 and not self.amount
        one = self.noun.removesuffix("s") if whole else self.noun
        words = {"clicks": self.noun, "click": one}

        def word(match: re.Match[str]) -> str:
            said = words[match[0].lower()]
            return said.capitalize() if match[0][0].isupper() else said

        said = re.sub(r"\b[Cc]licks?\b(?! model)(?![\w./-])", word, sentence)
        if whole:
            return said
        many = re.escape(self.noun)
        return re.sub(rf"(?i)\b({many})( per session)? (change by|follow)\b", _singular, said)

    def worth(self, events: float) -> float:
        """The value of so many counted events (per session, say)."""
        return events * self.unit

    def note(self) -> str:
        """What figures mean, where one counted event is not worth 1; else empty."""
        if self.unit == 1 and not self.amount:
            return ""
        return (
            f"The {self.noun} of an impression is a share of {self.unit:g}, the most that counts: "
            f"rates and relevance are such shares."
        )

    @classmethod
    def of_metadata(cls, metadata: Mapping[bytes, bytes] | None) -> Feedback:
        """What a file of counts says of itself; clicks where it says nothing."""
        said = (metadata or {}).get(KEY.encode())
        if said is None:
            return CLICKS
        rule = "a text of at most 1,000 characters"
        require(len(said) <= 1000, "feedback of the counts", rule, len(said))
        return cls(said.decode(errors="replace"))


def _singular(match: re.Match[str]) -> str:
    """One of something, where sentences speak of many."""
    verb = {"change by": "changes by", "follow": "follows"}[match[3]]
    return f"{match[1]}{match[2] or ''} {verb}"


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"`feedback` must be {_RULE}; got {whole[:80]!r}.") from error


CLICKS = Feedback()
