"""What both the list of members and the clients' heads are made from, by SHA-256.

The server's answer cannot say which clients and features it is of, since equal sums have to be
equal files. So what lies beside it, and what is made from it, says which of the three go together.
"""

from dataclasses import asdict, dataclass

import h5py

from pfl.artifacts import check_origin, origin

NAMES = {"server": "server's answer", "clients": "clients", "features": "features"}


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
