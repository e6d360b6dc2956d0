"""Adam on the parameters of a torch module, as one vector on the CPU, wherever the module is.

Torch's own takes several times as long for small networks, as it goes parameter by parameter, and
making one imports torch's compiler, which takes longer than many a training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from saferank.scorers.networks import join_parameters

DECAYS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    r"""Steps of Adam (Kingma and Ba, 2015) along gradients of at most a given norm.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
              v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              \theta \leftarrow \theta - \eta \, \hat m / (\sqrt{\hat v} + \epsilon)

    with :math:`\hat m = m / (1 - \beta_1^t)` and :math:`\hat v = v / (1 - \beta_2^t)`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], max_grad_norm: float) -> None:
        self.parameters, self.max_grad_norm = list(parameters), max_grad_norm
        flat = join_parameters(self.parameters)
        self.first, self.second = torch.zeros_like(flat), torch.zeros_like(flat)
        self.steps = 0

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float) -> None:
        """Go one step down along a gradient in all parameters."""
        flat = gradient.clone()
        norm = float(torch.linalg.vector_norm(flat))
        if norm > self.max_grad_norm:
            flat.mul_(self.max_grad_norm / norm)
        self.steps += 1
        self.first.lerp_(flat, 1 - DECAYS[0])
        self.second.mul_(DECAYS[1]).addcmul_(flat, flat, value=1 - DECAYS[1])
        corrected = [1 - decay**self.steps for decay in DECAYS]
        below = (self.second / corrected[1]).sqrt_().add_(EPSILON)
        change = (self.first / below).mul_(-rate / corrected[0])
        start = 0
        for parameter in self.parameters:
            part = change[start : start + parameter.numel()]
            parameter.add_(part.view(parameter.shape).to(parameter))
            start += parameter.numel()

    @property
    def moved(self) -> bool:
        """Whether any gradient so far was not 0."""
        return bool(self.first.any() or self.second.any())

    def forget_direction(self) -> None:
        """Start again from elsewhere: where the parameters were going no longer counts."""
        self.first.zero_()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {"first": self.first, "second": self.second, "steps": torch.tensor(self.steps)}

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Whether a state is one of these parameters."""
        own = {name: value.shape for name, value in self.state().items()}
        return {name: value.shape for name, value in state.items()} == own

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.first, self.second = state["first"], state["second"]
        self.steps = int(state["steps"])
