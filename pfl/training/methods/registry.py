"""The methods by name."""

from collections.abc import Callable, Mapping

from torch import nn

from pfl.errors import InputError
from pfl.training.algorithm import Algorithm
from pfl.training.methods.apfl import apfl
from pfl.training.methods.cd2pfed.cd2pfed import cd2_pfed
from pfl.training.methods.class_prior.fedavg_prior import fedavg_prior
from pfl.training.methods.class_prior.fedrod import fedrod
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedavg_ft import fedavg_ft
from pfl.training.methods.fedbabu import fedbabu
from pfl.training.methods.fedbn import fedbn
from pfl.training.methods.fedper import fedper
from pfl.training.methods.fedprox import fedprox
from pfl.training.methods.fedrep import fedrep
from pfl.training.methods.lg_fed import lg_fed
from pfl.training.methods.local import local
from pfl.training.methods.pfedme import pfedme
from pfl.training.methods.settings import CD2Settings, method_settings
from pfl.training.settings import SettingError

# Each takes the network and its settings by name: those of its record in the module of settings.
METHODS: dict[str, Callable[..., Algorithm]] = {
    "cd2-pfed": lambda model, **settings: cd2_pfed(model, CD2Settings(**settings)),
    "fedavg": fedavg,
    "local": local,
    "fedper": fedper,
    "lg-fed": lg_fed,
    "fedrep": fedrep,
    "fedbn": fedbn,
    "fedprox": fedprox,
    "ditto": ditto,
    "fedavg-ft": fedavg_ft,
    "fedbabu": fedbabu,
    "apfl": apfl,
    "pfedme": pfedme,
    "fedavg-prior": fedavg_prior,
    "fedrod": fedrod,
}
COUNTED = frozenset({"fedavg-prior"})  # whose clients tell class counts: asked before a network is


def make_algorithm(
    name: str, model: nn.Module, settings: Mapping[str, object], section: str
) -> Algorithm:
    """The method ``name`` with the settings of its section, for networks built like ``model``.

    Raises:
        InputError: there is no such method; a setting is missing, unknown, of the wrong kind or out
            of its range; or the method refuses its value or the network.
    """
    record = method_settings(name, settings, section)
    try:
        return METHODS[name](model, **vars(record))
    except SettingError as error:
        raise InputError(f"{section}.{error}") from error
