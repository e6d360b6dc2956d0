"""What commands read: items with their counts, and click models by name or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saferank._core.files import read_json
from saferank.clicks import ClickModel, check_click_model, position_bias, trust_bias
from saferank.counts import Counts, CountTable
from saferank.errors import InputError, require
from saferank.metrics import dcg_weights

if TYPE_CHECKING:
    from saferank.safety.guarded import Mode

NAMED = {"trust-bias": trust_bias, "position-bias": position_bias}


def read_click_model(bias: str, counts: Path | None, ranks: int | None = None) -> ClickModel:
    """A click model by name, with as many ranks as the counts (at most 10), or from bias.json.

    `ranks` are those of the counts, where they are known.
    """
    if bias not in NAMED:
        rule = f"a bias.json that exists or one of {', '.join(NAMED)}"
        require(Path(bias).is_file(), "bias", rule, bias)
        return ClickModel.load(bias)
    if ranks is not None:
        return NAMED[bias](min(ranks, 10))
    if counts is None:
        return NAMED[bias]()
    import pyarrow.compute as pc

    ranks = pc.max(CountTable.open(counts).to_arrow(["rank"])["rank"]).as_py()
    return NAMED[bias](min(int(ranks or 1), 10))


def click_model_source(bias: str | None) -> str:
    """Where a click model comes from, in words."""
    if bias is None:
        return "the paper's trust bias, as no --bias was given"
    return f"{bias}, by name" if bias in NAMED else f"the file {Path(bias).name}"


def check_default_model(counts: Counts, click_model: ClickModel) -> str:
    """One sentence on the click model that is taken for want of another; refused if rejected."""
    check = check_click_model(counts.part("learn"), click_model)
    if check.rejected:
        raise InputError(
            f"`--bias` must be given: {check.verdict.rstrip('.')}, so the paper's alpha and "
            f"beta, which are taken without it, do not fit this log; `saferank bias` fits yours."
        )
    return f"No --bias was given: the paper's alpha and beta are taken. {check.verdict}"


def read_guard_mode(text: str | None) -> Mode:
    """What the guard serves; the best policy unless said otherwise."""
    if text not in (None, "best", "mix"):
        raise InputError(f"`--guard-mode` must be best or mix; got {text!r}.")
    return "mix" if text == "mix" else "best"


def read_examination(text: str) -> str | list[float]:
    """What a promise is for: auto, any, fitted or dcg; or the rank weights of a file.

    A file is a bias.json, whose alpha + beta are taken, or a JSON list of numbers.
    """
    if text in ("auto", "any", "fitted", "dcg"):
        return text
    path = Path(text)
    rule = "any, fitted, dcg, a bias.json or a JSON file with a list of rank weights"
    require(path.is_file(), "examination", rule, text)
    content = read_json(path)
    if isinstance(content, dict):
        return [float(value) for value in ClickModel.load(path).exposure_weights]
    numbers = isinstance(content, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in content
    )
    require(numbers and len(content) > 0, "examination", rule, text)
    return [float(value) for value in content]


def read_weights(text: str, click_model: ClickModel | None = None) -> list[float]:
    """Rank weights of the command line; `examination:K` is alpha of a click model's first ranks.

    >>> read_weights("1, 0.5"), len(read_weights("dcg:10"))
    ([1.0, 0.5], 10)
    """
    name, _, ranks = text.partition(":")
    try:
        if name == "dcg":
            return [float(value) for value in dcg_weights(int(ranks or 5))]
        if name == "examination" and click_model is not None:
            return [float(value) for value in click_model.alpha[: int(ranks)]]
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"`--weights` must be dcg:K or numbers such as 1,0.5,0.3; got {text[:60]!r}."
        ) from error
