"""Who computes exact exposures and their gradients: compiled loops, or torch on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from saferank._core.flat import Floats, Ints
from saferank.plackett_luce.exact import exposure, exposure_gradient


class ExposureKernels(Protocol):
    """Exposure of documents and the gradient of a slope in it, from arrays to arrays."""

    def exposure(self, scores: Floats, weights: Floats, offsets: Ints) -> Floats:
        """Exposure of each document."""

    def gradient(
        self, scores: Floats, weights: Floats, offsets: Ints, slope: Floats, *, tol: float
    ) -> Floats:
        """The gradient in the scores of a slope in exposures."""


@dataclass(frozen=True)
class CompiledKernels:
    """The compiled loops, on the CPU."""

    def exposure(self, scores: Floats, weights: Floats, offsets: Ints) -> Floats:
        """Exposure of each document."""
        return exposure(scores, weights, offsets)

    def gradient(
        self, scores: Floats, weights: Floats, offsets: Ints, slope: Floats, *, tol: float
    ) -> Floats:
        """The gradient in the scores of a slope in exposures."""
        return exposure_gradient(scores, weights, offsets, slope, tol=tol)


COMPILED = CompiledKernels()
