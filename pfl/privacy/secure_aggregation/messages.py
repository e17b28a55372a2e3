"""Everything that a client and the server of a secure sum tell each other: integers and bytes.

In order: `Advert`, `Introduction`, `Letters` (to the server, and on to their receivers), `Masked`,
`Question`, `Shares`. Whatever carries them, none has to be kept from the server, which relays all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Advert:
    """A client's two public keys."""

    client: int
    sealing_key: bytes
    mask_key: bytes


@dataclass(frozen=True)
class Introduction:
    """To one client: the adverts of its neighbors, and the threshold t."""

    client: int
    neighbors: tuple[Advert, ...]
    threshold: int


@dataclass(frozen=True)
class Letters:
    """One client's sealed shares: as it sends them, by receiver; as it gets them, by sender."""

    client: int
    sealed: dict[int, bytes]


@dataclass(frozen=True)
class Masked:
    """A client's masked vector, little-endian 64-bit numbers."""

    client: int
    vector: bytes


@dataclass(frozen=True)
class Question:
    """To one client: which neighbors are in the sum, and which were lost after they had shared."""

    client: int
    present: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True)
class Shares:
    """Shares of the self-mask's seed of each present neighbor, and of each lost one's mask key."""

    client: int
    seed_shares: dict[int, bytes]
    key_shares: dict[int, bytes]


ToServer = TypeVar("ToServer", Advert, Letters, Masked, Shares)


@dataclass
class Upload:
    """Bytes of the keys, letters, numbers and shares that all clients send, not of the wire's."""

    bytes: int = 0

    def count(self, messages: Iterable[ToServer]) -> Iterator[ToServer]:
        """The same messages, counted as they pass."""
        for message in messages:
            for part in vars(message).values():
                if isinstance(part, bytes | dict):
                    parts = [part] if isinstance(part, bytes) else part.values()
                    self.bytes += sum(map(len, parts))
            yield message
