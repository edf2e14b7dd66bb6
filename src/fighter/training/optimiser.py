"""AdamW by torch's kernels, without torch's optimiser class.

The first optimiser of that class imports torch's compiler, which takes longer than training on a
small table, and every step spends time on hooks that nothing here uses.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from .checkpoint import check_like

FUSED = ("cpu", "cuda")  # devices on which one kernel makes a whole step


class AdamW:
    """AdamW with the results and the state of :class:`torch.optim.AdamW`, bit by bit.

    Args:
        weights: the parameters to train.
        weight_decay: share of a weight, times the learning rate, that each step takes off
            (default: 0).
    """

    def __init__(self, weights: Iterable[nn.Parameter], weight_decay: float = 0.0):
        self.weights, self.weight_decay = list(weights), weight_decay
        self.fused = all(weight.device.type in FUSED for weight in self.weights)
        self.state: dict[int, dict[str, Tensor]] = {}  # by the number of the weight

    def zero_grad(self) -> None:
        """Drop the gradients, which frees their memory."""
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """Move every weight that has a gradient."""
        weights, grads, states = [], [], []
        for number, weight in enumerate(self.weights):
            if weight.grad is not None:
                weights.append(weight)
                grads.append(weight.grad)
                states.append(self.state.get(number) or self._begin(number))
        adamw(
            weights,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=self.fused or None,
            capturable=isinstance(lr, Tensor),
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def _begin(self, number: int) -> dict[str, Tensor]:
        """Make the state of a weight before its first step."""
        weight = self.weights[number].detach()
        self.state[number] = {
            "step": torch.zeros((), device=weight.device if self.fused else "cpu"),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
        return self.state[number]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors; a weight that never had a gradient has none."""
        return {f"{i}/{name}": t for i, state in self.state.items() for name, t in state.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the state that :meth:`tensors` returned.

        Raises ValueError unless it fits the weights: the kernel trusts the sizes it is given.
        """
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            number, key = name.split("/")
            state.setdefault(int(number), {})[key] = tensor
        for number, values in state.items():
            if not 0 <= number < len(self.weights):
                raise ValueError(f"the optimiser has no parameter number {number}")
            like = self.weights[number].detach()
            check_like(values, {"step": torch.zeros(()), "exp_avg": like, "exp_avg_sq": like})
            for key, tensor in values.items():
                if self.fused or key != "step":
                    values[key] = tensor.to(like.device)
        self.state = state
