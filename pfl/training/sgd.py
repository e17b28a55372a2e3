"""Local training by stochastic gradient descent: what FedAvg's clients do, and most others'.

McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017),
Algorithm 1, ClientUpdate. The optimizer is fresh in every round: nothing of it is kept or sent.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pfl.training.algorithm import RoundContext

Terms = dict[str, Float[Tensor, ""]]
Value = tuple[Float[Tensor, ""], Terms]  # the loss to be minimized, and terms to be reported
Loss = Callable[[nn.Module, Tensor, Tensor], Value]  # of the model, inputs and labels


def cross_entropy(
    model: nn.Module, inputs: Float[Tensor, "b ..."], label: Int[Tensor, " b"]
) -> Value:
    """CE(g(x), y), batch mean; reported with the accuracy on the batch."""
    logits = model(inputs)
    loss = F.cross_entropy(logits, label)
    hits = (logits.detach().argmax(1) == label).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": hits}


def train(model: nn.Module, context: RoundContext) -> dict[str, float]:
    """Minimize the cross-entropy over all parameters for the round's epochs."""
    return descend(model, model.parameters(), context, cross_entropy)


def descend(
    model: nn.Module,
    parameters: Iterable[nn.Parameter],
    context: RoundContext,
    loss: Loss,
    after_batch: Callable[[], None] | None = None,
    after_epoch: Callable[[], None] | None = None,
    repeats: int = 1,
) -> dict[str, float]:
    """SGD on ``parameters`` with a loss; returns its terms' means over all samples seen.

    ``after_batch`` is called after the ``repeats`` steps on each batch, for what a method does
    between them, and ``after_epoch`` after each pass over the data. The terms of a batch are those
    of the last step.
    """
    optimizer = (context.optimizer or sgd)(parameters, context)
    totals: dict[str, Tensor] = {}
    seen = 0
    model.train()
    settings = context.training
    for _ in range(context.epochs):
        for inputs, label in context.data.batches(settings.batch_size, context.generator):
            for _ in range(repeats):
                with autocast(inputs.device, settings.bf16):
                    value, terms = loss(model, inputs, label)
                optimizer.zero_grad()
                torch.autograd.backward(value)
                optimizer.step()
            if after_batch is not None:
                after_batch()
            for name, term in terms.items():
                totals[name] = totals.get(name, 0.0) + term.double() * len(label)
            seen += len(label)
        if after_epoch is not None:
            after_epoch()
    return {name: float(total) / seen for name, total in totals.items()}


def sgd(parameters: Iterable[nn.Parameter], context: RoundContext) -> torch.optim.SGD:
    """The round's optimizer, with fresh momentum."""
    settings = context.training
    return torch.optim.SGD(
        parameters,
        lr=context.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def autocast(device: torch.device, bf16: bool) -> torch.autocast:
    """Matrix products in bfloat16 if ``bf16``, else as they are."""
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16)
