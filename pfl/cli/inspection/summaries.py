"""What is in an artifact of each schema, in few numbers, and client by client."""

from collections.abc import Callable, Iterable
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float

from pfl.cli.display import Content, Share
from pfl.cli.inspection.spectra import eigenvalues
from pfl.data.features.features import open_features
from pfl.data.images.images import open_images
from pfl.data.samples.clients import check_number, read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation.metrics import EQUATION_14, LOCAL, PERSONALIZED
from pfl.evaluation.report import families
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.heads import Heads, open_heads
from pfl.fedhip.members import read_members
from pfl.fedhip.selection.choice import NO_CHOICE
from pfl.fedhip.server import read_server
from pfl.fedhip.uploads import open_uploads

LEFT = "left out"  # what stands for the family of a client without heads


def _images(path: Path, _: int | None) -> Content:
    with open_images(path) as images:
        first = np.asarray(images.rgb(0, 1)[0]) if len(images) else np.zeros((0, 0, 3))
        height, width, _ = first.shape
        return {
            "images": len(images),
            "layout": "encoded files" if images.encoded else "pixels",
            "first-image": f"{width} × {height} pixels",
        }


def _index(path: Path, _: int | None) -> Content:
    index = read_index(path)
    train, test = (
        np.bincount(index.label[part], minlength=len(index.classes))
        for part in (index.train, index.test)
    )
    groups = np.bincount(index.group, minlength=len(index.groups))
    content: dict[str, object] = {
        "training-samples": int(index.train.sum()),
        "test-samples": int(index.test.sum()),
        **({} if index.image is None else {"images": index.images}),
        "classes": [
            {"class": name, "train": int(train[c]), "test": int(test[c])}
            for c, name in enumerate(index.classes)
        ],
    }
    if len(groups) > 1:
        rows = zip(index.groups, groups.tolist(), strict=True)
        content["groups"] = [{"group": name, "samples": count} for name, count in rows]
    return content


def _clients(path: Path, client: int | None) -> Content:
    clients = read_clients(path)
    train, test = clients.train, clients.test
    content: dict[str, object] = {
        "clients": [
            {
                "client": k,
                "train": int(train.sizes[k]),
                "test": int(test.sizes[k]),
                "classes": int((train.count[k] > 0).sum()),
                "largest-class": Share(train.count[k].max() / max(1, train.sizes[k])),
            }
            for k in chosen(client, train.clients)
        ]
    }
    if len(clients.external):
        content["external-samples"] = len(clients.external)
    if client is not None:
        content["classes"] = [
            {"class": c, "train": int(a), "test": int(b)}
            for c, (a, b) in enumerate(zip(train.count[client], test.count[client], strict=True))
            if a or b
        ]
    return content


def _features(path: Path, _: int | None) -> Content:
    with open_features(path) as features:
        largest = np.zeros(features.m, np.int64)
        total = 0
        for rows in features.blocks():
            magnitudes = np.abs(rows.astype(np.int32))  # -32768, which never occurs, would not fit
            np.maximum(largest, magnitudes.max(axis=0, initial=0), out=largest)
            total += int(magnitudes.sum(dtype=np.int64))
        values = len(features) * features.m
        return {
            "images": len(features),
            "features": features.m,
            "values": {
                "largest-magnitude": float(largest.max(initial=0) * features.step),
                "mean-magnitude": total * features.step / max(1, values),
                "features-always-0": int((largest == 0).sum()),
                "saturated": features.saturated,
            },
        }


def _uploads(path: Path, client: int | None) -> Content:
    with open_uploads(path) as sent:
        numbers = sent.numbers if client is None else (client,)
        own = None if client is None else sent.of(client)
        content: dict[str, object] = {
            "clients": [{"client": k, **_sent(sent.file[f"client/{k:06d}"])} for k in numbers]
        }
        if own is not None:
            content["spectrum-of-its-gram"] = eigenvalues(own.gram_matrix())
        return content


def _sent(group: h5py.Group) -> dict[str, object]:
    count = group["count"][...]
    stored = sum(item.id.get_storage_size() for item in group.values())
    return {"samples": int(count.sum()), "classes": len(count), "bytes": stored}


def _members(path: Path, _: int | None) -> Content:
    member = read_members(path).member
    left = np.flatnonzero(~member).tolist()
    return {"clients": len(member), "in-the-sums": int(member.sum()), "left-out": left or None}


def _server(path: Path, _: int | None) -> Content:
    total, knowledge = read_server(path)
    return {
        "samples": total.samples,
        "features": total.features,
        "samples-per-class": total.count.tolist(),
        "spectrum-of-the-gram": eigenvalues(knowledge.gram, knowledge.beta),
    }


def _heads(path: Path, client: int | None) -> Content:
    with open_heads(path) as heads:
        local, paper = heads.chosen(LOCAL), heads.chosen(EQUATION_14)
        prior, objective = heads.prior(PERSONALIZED), heads.objective
        rows = [
            {
                "client": k,
                "made-of": _made_of(heads, k) or LEFT,
                "prior": None if local[k] is None else float(prior[k]),
                "leave-one-out": _least(heads, objective[k], k),
                "local-beta": None if (one := local[k]) is None else one.beta,
                "alpha": None if (one := paper[k]) is None else one.alpha,
            }
            for k in chosen(client, len(local))
        ]
        counts = families(heads.stack[heads.stayed])
        left = int((~heads.stayed).sum())
        return {
            "candidates": len(heads.candidates),
            "families": counts | ({LEFT: left} if left else {}),
            "clients": rows,
        }


def _made_of(heads: Heads, client: int) -> str:
    """The families of a personalized head with their weights, the largest first."""
    weights = zip(FAMILIES, heads.stack[client].tolist(), strict=True)
    used = sorted(((w, f.value) for f, w in weights if w > 0), reverse=True)
    return ", ".join(f"{family} {weight:.2f}" for weight, family in used)


def _least(heads: Heads, objective: Float[np.ndarray, " candidates"], client: int) -> float | None:
    """The least objective of a head that is in the personalized one, nats a sample unknown."""
    numbers = [n for n in heads.member[client].tolist() if n != NO_CHOICE]
    values = objective[numbers]
    return float(values.min()) if len(values) and not np.isnan(values).all() else None


def chosen(client: int | None, clients: int) -> Iterable[int]:
    """The numbers of all K clients, or of the one asked for.

    Raises:
        InputError: there is no such client.
    """
    if client is None:
        return range(clients)
    check_number(client, clients)
    return (client,)


SUMMARIES: dict[str, Callable[[Path, int | None], Content]] = {
    "images": _images,
    "index": _index,
    "clients": _clients,
    "features": _features,
    "uploads": _uploads,
    "members": _members,
    "server": _server,
    "heads": _heads,
}
