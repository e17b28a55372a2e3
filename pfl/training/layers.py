"""A network's layers from the images to the class scores, for methods that share some of them."""

from torch import nn

from pfl.training.settings import SettingError


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


def end_layers(model: nn.Module, count: int, top: bool, setting: str) -> frozenset[str]:
    """Names of the entries of the last ``count`` layers (``top``), or of the first ones.

    Raises:
        SettingError: no layer is left over, or none is chosen; ``setting`` is what to change.
    """
    groups = layers(model)
    if len(groups) < 2:
        raise SettingError(
            f"{setting} divides the layers of a network, and this one has one alone: choose a "
            "network with more (a head with hidden units), or another method."
        )
    if not 1 <= count < len(groups):
        raise SettingError(
            f"{setting} is {count}, but the network has {len(groups)} layers, one of which must "
            f"be left over: choose 1 … {len(groups) - 1}."
        )
    chosen = groups[-count:] if top else groups[:count]
    return frozenset(name for group in chosen for name in group)


def body_and_classifier(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """What makes the features, and the linear layer that makes class scores of them.

    Both are the network's own modules. The body of a linear network returns its input.

    Raises:
        ValueError: the network does not end so, as all of :mod:`pfl.training.networks` do.
    """
    if not isinstance(model, nn.Sequential) or not isinstance(model[-1], nn.Linear):
        raise ValueError("The network is no sequence of layers that ends with a linear one.")
    return model[:-1], model[-1]
