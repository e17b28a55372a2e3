"""A step of CD2-pFed against a plain one, in one run: LeNet-5, batches of 128, one thread.

    python -m benchmarks.decoupled_step [--network lenet5] [--batch-size 128] [--turns 15]

A step is forward, backward and SGD on one batch of random images. "Three forwards" runs the two
sub-networks as the whole network with the other weights set to zero, which is the simplest way to
write the method. The candidates take turns; time is processor time, and each ratio is the median
over turns. On a shared two-core machine CD2-pFed took 1.5 to 1.6 times a plain step, and three
forwards 3.2 times.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from pfl.training.methods.cd2pfed.cd2pfed import averaging
from pfl.training.methods.cd2pfed.channels import Cross, crossing, divide
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.distill import cyclic_distillation
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.networks import build

STEPS = 10  # in each turn
Loss = Callable[[], Tensor]


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    shape = (options.batch_size, 3, options.image_size, options.image_size)
    images = torch.randn(shape, generator=generator).to(memory_format=torch.channels_last)
    label = torch.randint(10, shape[:1], generator=generator)
    network = build(options.network, 3, options.image_size, 10, generator)
    network.to(memory_format=torch.channels_last)
    candidates = {
        "plain": _step(network, lambda net: lambda: F.cross_entropy(net(images), label)),
        **{
            f"CD2-pFed, p = {ratio}": _step(network, _distilled(ratio, images, label))
            for ratio in (0.1, 0.5, 0.9)
        },
        "the same, averaged every step": _step(network, _distilled(0.5, images, label), True),
        "three forwards, p = 0.5": _step(network, _three_forwards(images, label)),
    }
    costs: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(options.turns + 1):
        for name, step in candidates.items():
            cost = _cost(step)
            if turn > 0:  # the first one warms up
                costs[name].append(cost)
    _print(costs, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="lenet5")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--turns", type=int, default=15)
    return parser.parse_args()


def _step(
    network: nn.Module, objective: Callable[[nn.Module], Loss], average: bool = False
) -> Callable[[], None]:
    """One step on a copy of ``network``."""
    network = deepcopy(network)
    loss = objective(network)
    optimizer = torch.optim.SGD(
        network.parameters(), 0.01, 0.9, nesterov=True, weight_decay=5e-4, fused=True
    )
    split = divide(trace(network), network.state_dict(), 0.5, Cross.BOTH_SHARED)
    settle = averaging(network, split, 0.5)

    def step() -> None:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if average:
            settle()

    return step


def _distilled(ratio: float, images: Tensor, label: Tensor) -> Callable[[nn.Module], Loss]:
    def objective(network: nn.Module) -> Loss:
        forward = decouple(trace(network), network, ratio)

        def loss() -> Tensor:
            logits = forward(images)
            taught = cyclic_distillation(logits.private, logits.shared)
            return F.cross_entropy(logits.joint, label) + taught

        return loss

    return objective


def _three_forwards(images: Tensor, label: Tensor) -> Callable[[nn.Module], Loss]:
    def objective(network: nn.Module) -> Loss:
        found, state = trace(network), network.state_dict()
        private = divide(found, state, 0.5, Cross.BOTH_SHARED)
        between = crossing(found, state, 0.5)
        weights = dict(network.named_parameters())
        own = {name: (private[name] & ~between[name]).float() for name in weights}
        common = {name: (~private[name]).float() for name in weights}

        def part(mask: dict[str, Tensor]) -> Tensor:
            masked = {name: weight * mask[name] for name, weight in weights.items()}
            return functional_call(network, masked, (images,))

        def loss() -> Tensor:
            taught = cyclic_distillation(part(own), part(common))
            return F.cross_entropy(network(images), label) + taught

        return loss

    return objective


def _cost(step: Callable[[], None]) -> float:
    """Seconds of processor time for one step."""
    start = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - start) / STEPS


def _print(costs: dict[str, list[float]], options: argparse.Namespace) -> None:
    print(f"{options.network}, batches of {options.batch_size}, one thread, {options.turns} turns")
    print(f"{'':32}{'ms/step':>9}{'images/s':>10}{'of plain':>10}")
    for name, spent in costs.items():
        cost = statistics.median(spent)
        ratio = statistics.median(a / b for a, b in zip(spent, costs["plain"], strict=True))
        print(f"{name:32}{cost * 1000:9.1f}{options.batch_size / cost:10.0f}{ratio:10.2f}")


if __name__ == "__main__":
    main()
