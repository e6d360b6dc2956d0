"""Fitting click models to counts: EM, intervention harvesting, errors, misfit, scale."""

from saferank.clicks.bias.check import ClickModelCheck, check_click_model
from saferank.clicks.bias.fit import METHODS, fit_position_bias, fit_trust_bias
from saferank.clicks.bias.fitted import FittedBias
from saferank.clicks.bias.known_policy import KnownPolicy
from saferank.clicks.bias.like_documents import LikeDocuments
from saferank.clicks.bias.misfit import Misfit
from saferank.clicks.bias.scale import Canonical, canonical

__all__ = [
    "METHODS",
    "Canonical",
    "ClickModelCheck",
    "FittedBias",
    "KnownPolicy",
    "LikeDocuments",
    "Misfit",
    "canonical",
    "check_click_model",
    "fit_position_bias",
    "fit_trust_bias",
]
