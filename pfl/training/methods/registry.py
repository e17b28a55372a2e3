"""The methods by name, and their settings as ``params.yaml`` has them."""

from collections.abc import Callable, Mapping

from torch import nn

from pfl.errors import InputError
from pfl.runtime.values import annotated, checked
from pfl.training.algorithm import Algorithm
from pfl.training.methods.apfl import apfl
from pfl.training.methods.cd2pfed.cd2pfed import CD2Settings, cd2_pfed
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
from pfl.training.settings import SettingError

# Each takes the network and its settings: by name, or the one that has many as a record of them.
METHODS: dict[str, Callable[..., Algorithm]] = {
    "cd2-pfed": cd2_pfed,
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
RECORDS: dict[str, Callable[..., object]] = {"cd2-pfed": CD2Settings}


def make_algorithm(
    name: str, model: nn.Module, settings: Mapping[str, object], section: str
) -> Algorithm:
    """The method ``name`` with the settings of its section, for networks built like ``model``.

    Raises:
        InputError: there is no such method; a setting is missing, unknown, of the wrong kind or out
            of its range; or the method refuses its value or the network.
    """
    if name not in METHODS:
        raise InputError(
            f"There is no method '{name}' (section {section}): choose from {', '.join(METHODS)}."
        )
    method, record = METHODS[name], RECORDS.get(name)
    known = annotated(record or method, "model", "return")
    missing, unknown = known.keys() - settings.keys(), settings.keys() - known.keys()
    if missing or unknown:
        wrong = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        wrong += [f"does not know {', '.join(sorted(unknown))}"] if unknown else []
        names = f"are {', '.join(known)}" if known else "do not exist"
        raise InputError(
            f"Section {section} of the parameters {' and '.join(wrong)}: its settings {names}."
        )
    values = {}
    for key, (kind, within) in known.items():
        values[key.replace("-", "_")] = checked(f"{section}.{key}", settings[key], kind, within)
    try:
        return method(model, record(**values)) if record else method(model, **values)
    except SettingError as error:
        raise InputError(f"{section}.{error}") from error
