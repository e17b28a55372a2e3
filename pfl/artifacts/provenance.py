"""What an artifact was made from: the SHA-256 of its sources, and how features were mapped.

``server.h5`` cannot say which clients and features it is of: equal sums have to be equal files. So
the list of members beside it, and the heads made from it, record which of the three go together.
"""

from dataclasses import asdict, dataclass

import h5py

from pfl.artifacts.hdf5 import Attribute
from pfl.errors import InputError

VIEW = "feature-"  # how names of attributes begin that tell of the features' view
NAMES = {"server": "server's answer", "clients": "clients", "features": "features"}


def origin(file: h5py.File, source: str) -> str:
    """What ``file`` records of the artifact it was made from; empty where it records nothing."""
    return str(file.attrs.get(f"{source}-sha256", ""))


def recorded_view(file: h5py.File) -> dict[str, Attribute]:
    """What ``file`` records of how features were mapped; empty where it records nothing."""
    return {name: file.attrs[name].item() for name in file.attrs if name.startswith(VIEW)}


def check_origin(product: str, recorded: str, source: str, actual: str) -> None:
    """Refuse a product next to another source than the one it was made from.

    ``product`` and ``source`` are what messages call them. ``recorded`` is the SHA-256 of the
    product's source, by :func:`origin`, and ``actual`` that of the source at hand; either is empty
    for what was made in memory.

    Raises:
        InputError: the two are known and differ.
    """
    if recorded and actual and recorded != actual:
        raise InputError(
            f"The {product} and the {source} belong to different runs ({recorded[:8]}… against "
            f"{actual[:8]}…): run `dvc repro`, which makes them anew from one another."
        )


@dataclass(frozen=True)
class Origins:
    """SHA-256 of three artifacts; empty for what is not known or was made in memory.

    Attributes:
        server: the server's answer, ``server.h5``.
        clients: who holds which samples, ``clients.h5``.
        features: ``features.h5``.
    """

    server: str = ""
    clients: str = ""
    features: str = ""

    def attributes(self) -> dict[str, str]:
        """As an artifact records them."""
        return {f"{source}-sha256": value for source, value in asdict(self).items()}

    @classmethod
    def of(cls, file: h5py.File) -> "Origins":
        """Those that ``file`` records."""
        return cls(**{source: origin(file, source) for source in NAMES})

    def check(self, product: str, actual: "Origins") -> None:
        """Refuse a product that was made from others than the ``actual`` ones.

        Raises:
            InputError: two that are known differ.
        """
        for source, called in NAMES.items():
            check_origin(product, getattr(self, source), called, getattr(actual, source))


UNKNOWN = Origins()
