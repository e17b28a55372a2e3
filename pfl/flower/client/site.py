"""What one client computes with: its own data folder, or its part of the pipeline's.

A folder that has a ``clients.h5`` is the pipeline's, and the client's number says which part of it
is meant: this is for simulations. In any other folder all samples are the client's own.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from jaxtyping import Bool, Int, Int16

from pfl.data.client_features.by_client import check_same_run, rows_of
from pfl.data.features.features import Features, open_features
from pfl.data.samples.clients import Assignment, Clients, assign, read_clients
from pfl.data.samples.index import Index, read_index
from pfl.errors import InputError
from pfl.flower.messages.kinds import CLASSES

PARTITION = "partition-id"  # Flower's number of a virtual client


@dataclass(frozen=True)
class Site:
    """One client and its data.

    Attributes:
        client: its number k.
        folder: with ``index.h5`` and ``features.h5`` or ``images.h5``.
        out: where what it keeps is stored, if anywhere.
        index: the samples of the folder.
        held: which of them are whose; client k is this one.
    """

    client: int
    folder: Path
    out: Path | None
    index: Index
    held: Clients

    def samples(
        self, features: Features, part: Assignment
    ) -> tuple[Int16[np.ndarray, "n m"], Int[np.ndarray, " n"]]:
        """This client's rows of one split, and their labels, ascending."""
        check_same_run(features, self.index, part)
        numbers = part.of(self.client)
        return rows_of(features, self.index.images_of(numbers)), self.index.label[numbers]

    def external(
        self, features: Features
    ) -> tuple[Int16[np.ndarray, "n m"], Int[np.ndarray, " n"]]:
        """The same of the group that takes no part, which a simulation alone has at hand."""
        numbers = self.held.external
        return rows_of(features, numbers), self.index.label[numbers]


def site_of(context: Context, content: RecordDict) -> Site:
    """The client that this node is, by its ``--node-config``: ``client`` and ``data``, ``out``.

    A virtual client has Flower's number, and its data folder is the run config's: no message can
    make a real site read another folder than its own. Where ``content`` names the classes of the
    run, among which are the site's, its labels are by their numbers.

    Raises:
        InputError: number or folder are not given, or the folder lacks something.
    """
    node, config = context.node_config, context.run_config
    virtual = PARTITION in node
    client = node.get(PARTITION if virtual else "client")
    folder = config.get("data") if virtual else node.get("data")
    if not isinstance(client, int) or isinstance(client, bool) or client < 0 or not folder:
        raise InputError(
            "This site does not know its number or its data: start the SuperNode with "
            "--node-config 'client=0 data=\"/path/to/data\"', the number being its own."
        )
    out = config.get("clients-out") if virtual else node.get("out")
    kept = (Path(str(out)) / f"client-{client}" if virtual else Path(str(out))) if out else None
    path = Path(str(folder))
    index, dealt = _read(path, stamp(path, "index.h5", "clients.h5"))
    if dealt is None:
        index = _numbered(index, content)
        return Site(client, path, kept, index, _all_to(client, index))
    if client >= dealt.train.clients:
        raise InputError(
            f"{path} is dealt to {dealt.train.clients} clients, and there is no client {client}: "
            "start fewer virtual clients."
        )
    return Site(client, path, kept, index, dealt)


def site_features(site: Site) -> Features:
    """The features of the site's folder."""
    return _features(site.folder, stamp(site.folder, "features.h5"))[0]


def stamp(folder: Path, *names: str) -> tuple[int, ...]:
    """Changes when one of the files does."""
    paths = (folder / name for name in names)
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)


# Read once by a process: the virtual clients of a simulation share few of them.
@lru_cache(maxsize=1)
def _read(folder: Path, stamped: tuple[int, ...]) -> tuple[Index, Clients | None]:
    del stamped
    path = folder / "clients.h5"
    return read_index(folder / "index.h5"), read_clients(path) if path.exists() else None


@lru_cache(maxsize=1)
def _features(folder: Path, stamped: tuple[int, ...]) -> tuple[Features, ExitStack]:
    """Open features, and what keeps them open."""
    del stamped
    stack = ExitStack()
    return stack.enter_context(open_features(folder / "features.h5")), stack


def _numbered(index: Index, content: RecordDict) -> Index:
    """The index with the class numbers of the run: a site may lack some classes of others."""
    classes = content.config_records.get(CLASSES, ConfigRecord()).get(CLASSES)
    names = tuple(map(str, classes)) if isinstance(classes, list) else index.classes
    if names == index.classes:
        return index
    numbers = np.array([names.index(name) for name in index.classes], index.label.dtype)
    return replace(index, label=numbers[index.label], classes=names)


def _all_to(client: int, index: Index) -> Clients:
    """Every sample is this client's, and none another's."""

    def part(mask: Bool[np.ndarray, " n"]) -> Assignment:
        rows = np.flatnonzero(mask)
        owner = np.full(len(rows), client)
        return assign(owner, rows, index.label[rows], client + 1, len(index.classes))

    return Clients(part(index.train), part(index.test))
