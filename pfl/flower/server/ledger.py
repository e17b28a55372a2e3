"""Who is in the sum: clients join by addition and leave by subtraction, to the last bit.

With a folder, each member's upload is kept as a file of its own, so that members of earlier runs
need not send again, and one that has gone for good can still be taken out. The total is the sum of
these files, so that a run that was stopped half-way leaves nothing inconsistent.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from pfl.artifacts.files import write_text
from pfl.errors import InputError
from pfl.fedhip.membership import forget, join
from pfl.fedhip.moments import Moments
from pfl.fedhip.uploads import create_uploads, open_uploads, packed_bytes

PATTERN, CLASS_FILE = "client-*.h5", "classes.json"


@dataclass
class Ledger:
    """The members, sum and bytes of what they sent, and the folder that keeps it, if any."""

    total: Moments
    folder: Path | None
    members: set[int] = field(default_factory=set)
    upload_bytes: int = 0

    def join(self, client: int, sent: Moments) -> None:
        """Add a client's upload.

        Raises:
            InputError: it is in already, or its moments are of another backbone.
        """
        if client in self.members:
            raise InputError(f"client {client} is in the sum already; let it leave first")
        total = join(self.total, [sent])
        if self.folder is not None:
            shape = (client + 1, sent.features, len(sent.count))
            with create_uploads(_path(self.folder, client), *shape, sent.step) as uploads:
                uploads.add(client, sent)
        self.total = total
        self.members.add(client)
        self.upload_bytes += packed_bytes(sent)

    def leave(self, client: int) -> None:
        """Take a client's upload out again.

        Raises:
            InputError: it is not in, or uploads are not kept.
        """
        if self.folder is None or client not in self.members:
            raise InputError(
                f"Client {client} cannot leave: it is not in the sum that the folder `state` "
                "keeps. Leave its number out of `leave`."
            )
        path = _path(self.folder, client)
        sent = _read(path, client, self.total)
        self.total = forget(self.total, [sent])
        path.unlink()
        self.members.remove(client)
        self.upload_bytes -= packed_bytes(sent)


def open_ledger(folder: Path | None, zero: Moments) -> Ledger:
    """The members that ``folder`` keeps; nobody where it is None.

    Raises:
        InputError: an upload is damaged, or of another backbone or other classes.
    """
    ledger = Ledger(zero, folder)
    for path in sorted(folder.glob(PATTERN)) if folder is not None else ():
        client = int(path.stem.removeprefix("client-"))
        sent = _read(path, client, zero)
        ledger.total = ledger.total + sent
        ledger.members.add(client)
        ledger.upload_bytes += packed_bytes(sent)
    return ledger


def kept_classes(folder: Path) -> tuple[str, ...]:
    """Names of the classes whose sums the folder keeps; none where it keeps nothing yet."""
    path = folder / CLASS_FILE
    return tuple(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ()


def keep_classes(folder: Path, names: tuple[str, ...]) -> None:
    """Fix the classes of the sum for all later runs."""
    write_text(folder / CLASS_FILE, json.dumps(names) + "\n")


def _path(folder: Path, client: int) -> Path:
    return folder / PATTERN.replace("*", f"{client:06d}")


def _read(path: Path, client: int, zero: Moments) -> Moments:
    with open_uploads(path) as uploads:
        sent = uploads.of(client)
    zero + sent  # Refuses another backbone's.
    return sent
