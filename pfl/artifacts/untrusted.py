"""HDF5 files from elsewhere: what they must not hold, whoever wrote them.

HDF5 can take a dataset's content from other files (external links, external storage, virtual
datasets), pack it so that a small file unpacks to any size, claim a shape of which nothing is
stored, and hold objects of varying length. Artifacts do none of this, so a file that does is
refused before anything in it is read. The SHA-256 in its first line protects from accidents only:
whoever makes a file makes its hash.
"""

import math

import h5py

SLACK = 1 << 20  # bytes of rows that were reserved and never written: they are zeros
CHECKSUM = "fletcher32"  # the one filter that artifacts use


def foreign(file: h5py.File) -> str:
    """What in an open file no artifact holds, in words; empty if there is nothing.

    Types of links are looked at without following them.
    """
    reasons: list[str] = []

    def visit(name: str, link: object) -> str | None:
        what = _of_link(file, name, link)
        if what:
            reasons.append(f"'{name}' {what}")
        return what or None  # Anything but None ends the visit.

    file.visititems_links(visit)
    return reasons[0] if reasons else ""


def _of_link(file: h5py.File, name: str, link: object) -> str:
    if not isinstance(link, h5py.HardLink):
        return "is a link to another place"
    item = file[name]
    if isinstance(item, h5py.Dataset):
        return _of_dataset(item)
    return "" if isinstance(item, h5py.Group) else "is neither a dataset nor a group"


def _of_dataset(item: h5py.Dataset) -> str:
    if item.is_virtual or item.external:
        return "takes its values from another file"
    if item.dtype.hasobject:
        return "holds values of varying length"
    plan = item.id.get_create_plist()
    filters = {plan.get_filter(number)[3] for number in range(plan.get_nfilters())}
    if item.compression or filters - {CHECKSUM.encode()}:
        return "is compressed"
    claimed = math.prod(item.shape or ()) * item.dtype.itemsize
    stored = item.id.get_storage_size()
    if claimed > stored + SLACK:
        return f"claims {claimed:,} bytes and holds {stored:,}"
    return ""
