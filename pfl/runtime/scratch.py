"""Resumable work: a locked folder that outlives a killed stage and is deleted at the end.

``.scratch/<stage>/<key>/`` holds finished pieces of one piece of work. The key hashes everything
the result depends on (parameters, inputs, code), so pieces are only ever reused for the same
result. Nothing in it is an output: a stage that ends deletes all scratch of that stage.
"""

import hashlib
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pfl.errors import InputError
from pfl.runtime.locks import try_lock


@contextmanager
def scratch(root: Path, stage: str, key: str) -> Iterator[Path]:
    """Lock the scratch of ``stage``, yield the folder of ``key``, delete all of it on success.

    On a file system without locks nothing keeps a second run of the stage out of the folder: the
    first to end then deletes the other's pieces, and that one fails.

    Raises:
        InputError: another process is at work on the same stage in the same checkout.
    """
    base = root / stage
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("a") as lock:
        if not try_lock(lock.fileno(), base / "lock"):
            raise InputError(
                f"Another '{stage}' is at work in this checkout (perhaps left behind by a stopped "
                f"`dvc repro`): wait until it ends, or stop it, then run again. Lock: {base}/lock."
            )
        folder = base / key
        folder.mkdir(exist_ok=True)
        yield folder
        for item in base.iterdir():
            if item.is_dir():
                shutil.rmtree(item)


def fingerprint(parts: Mapping[str, object]) -> str:
    """Sixteen hex digits that name a piece of work: SHA-256 of ``parts`` as sorted JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def work_key(
    facts: Mapping[str, object], packages: Iterable[str], inputs: Iterable[Path] = ()
) -> str:
    """Name of a piece of work: whatever may change a bit of the result is in it.

    That is facts, the versions of packages, the content of inputs, and all code imported by now.
    """
    versions = {name: importlib.metadata.version(name) for name in packages}
    hashes = [file_sha256(path) for path in inputs]
    return fingerprint({**facts, **versions, "inputs": hashes, "code": code_sha256()})


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def code_sha256(packages: tuple[str, ...] = ("pfl", "stages")) -> str:
    """SHA-256 over the source of every module of ``packages`` that this process has imported."""
    sources = {}
    for key, module in tuple(sys.modules.items()):
        # A module run by ``python -m`` is ``__main__``, but its specification has its name.
        name = getattr(getattr(module, "__spec__", None), "name", key)
        path = getattr(module, "__file__", None)
        if path and name.split(".")[0] in packages:
            sources[name] = file_sha256(Path(path))
    return hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
