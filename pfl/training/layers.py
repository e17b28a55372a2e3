"""A network's layers from the images to the class scores, for methods that share some of them."""

from torch import nn

from pfl.errors import InputError


def layers(model: nn.Module) -> list[list[str]]:
    """Names of the state's entries, layer by layer, in the order in which the network lists them.

    A layer begins with a module whose weight has two or more axes (convolution, linear); what
    follows without such a weight, normalization above all, belongs to it.
    """
    groups: list[list[str]] = []
    state = model.state_dict()
    for prefix, module in model.named_modules():
        own = [*module._parameters, *module._buffers]
        names = [name for name in (f"{prefix}.{key}".lstrip(".") for key in own) if name in state]
        if not names:
            continue
        weight = getattr(module, "weight", None)
        if not groups or (weight is not None and weight.ndim > 1):
            groups.append([])
        groups[-1] += names
    return groups


def end_layers(model: nn.Module, count: int, top: bool, parameter: str) -> frozenset[str]:
    """Entries of the ``count`` last layers (``top``) or first ones, at least one being left.

    Raises:
        InputError: there are no so many layers; ``parameter`` is what to change.
    """
    groups = layers(model)
    if len(groups) < 2:
        raise InputError(
            f"The setting {parameter} divides the layers of a network, and this one has one alone: "
            "choose a network with more (a head with hidden units), or another method."
        )
    if not 1 <= count < len(groups):
        raise InputError(
            f"The setting {parameter} is {count}, but the network has {len(groups)} layers, of "
            f"which at least one is left: choose 1 … {len(groups) - 1}."
        )
    chosen = groups[-count:] if top else groups[:count]
    return frozenset(name for group in chosen for name in group)
