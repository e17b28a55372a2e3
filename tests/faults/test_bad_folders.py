"""Image folders as users and attackers leave them: each works as expected or is refused by name.

The table says what becomes of each. What pixels decoding gives is in
``tests/data/images/test_images.py``.
"""

import io
import os
import re
import shutil
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl.data.images.images import open_images
from pfl.data.samples.index import read_index
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError, trouble
from stages.prepare import prepare
from tests.sources import request

FILES = 8  # of the two classes together, without what a case adds


def encoded(kind="PNG", mode="RGB", size=(5, 4), **options):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, depth, color, rows):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def jpeg_with_exif(body):
    data, segment = encoded("JPEG"), b"Exif\0\0" + body
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + data[2:]


def animated(kind):
    return encoded(kind, save_all=True, append_images=[Image.new("RGB", (5, 4), "red")])


@dataclass(frozen=True)
class Case:
    """What is added to the folder, and what comes of it."""

    name: str  # of a file below the folder
    content: bytes | Path | None = None  # of it; a link's target; None for a folder
    refused: str = ""
    warned: str = ""
    files: int = FILES + 1


def skipped(name, **options):
    return Case(name, b"rubbish", files=FILES, **options)


DAMAGED = r"{name}.* is damaged, truncated or no image at all"
CASES = {
    # files that are images
    **{f"{mode} {kind}": Case("a/x", encoded(kind, mode)) for mode, kind in (
        ("1", "PNG"), ("L", "PNG"), ("P", "PNG"), ("LA", "PNG"), ("RGBA", "PNG"), ("1", "TIFF"),
        ("CMYK", "JPEG"), ("CMYK", "TIFF"), ("P", "GIF"), ("RGBA", "WEBP"))},
    "palette with transparency": Case("a/x.png", encoded(mode="P", transparency=3)),
    "16-bit grey": Case("a/x.png", png(2, 1, 16, 0, b"\0\0\1\xff\xfe")),
    "16-bit color": Case("a/x.png", png(1, 1, 16, 2, b"\0" + bytes(6))),
    **{f"animated {kind}": Case(f"a/x.{kind}", animated(kind)) for kind in ("GIF", "WEBP", "PNG")},
    "one pixel": Case("a/x.png", encoded(size=(1, 1))),
    "PNG called jpg": Case("a/x.jpg", encoded()),
    "no extension": Case("a/x", encoded()),
    "EXIF orientation": Case("a/x.jpg", jpeg_with_exif(
        b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\x06\0\0\0\0\0\0")),
    "EXIF rubbish": Case("a/x.jpg", jpeg_with_exif(b"rubbish")),
    "EXIF of another orientation": Case("a/x.jpg", jpeg_with_exif(
        b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\x09\0\0\0\0\0\0")),
    "rubbish after the end": Case("a/x.jpg", encoded("JPEG") + b"rubbish"),
    # names
    "long name": Case(f"a/{'x' * 251}.png", encoded()),
    "name with spaces, a line break and colors": Case("a/ x\n\x1b[31m.png", encoded()),
    "same name in both classes": Case("b/a0.png", encoded()),
    "class of emoji": Case("\U0001f436/x.png", encoded()),
    "class like an option": Case("--help/x.png", encoded()),
    "class with a line break": Case("c\nd/x.png", encoded(), refused=r"'c\\nd', which holds"),
    "classes that differ in case": Case("A/x.png", encoded(), warned="'A' and 'a'"),
    "classes that differ in spaces": Case("a /x.png", encoded(), warned="'a' and 'a '"),
    # not images
    "zero bytes": Case("a/x.png", b"", refused=DAMAGED),
    "text": Case("a/x.csv", b"a,b\n", refused=DAMAGED),
    "a name that a terminal obeys": Case("a/\x1b[31m\n", b"", refused=r"a/\\x1b\[31m\\n is"),
    "truncated": Case("a/x.jpg", encoded("JPEG")[:-60], refused=DAMAGED),
    "program": Case("a/x.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n", refused=DAMAGED),
    "no palette": Case("a/x.png", png(1, 1, 8, 3, b"\0\0"), refused=DAMAGED),
    "no pixels": Case("a/x.png", png(0, 5, 8, 2, b""), refused=DAMAGED),
    "claims billions of pixels": Case("a/x.png", png(60_000, 60_000, 8, 2, b""), refused="large"),
    "claims 90 million": Case("a/x.png", png(9_500, 9_500, 8, 2, b""), refused="too large"),
    # left by systems
    **{name: skipped(name) for name in (
        "a/.DS_Store", ".DS_Store", "a/Thumbs.db", "a/desktop.ini", "__MACOSX/a/._x.png",
        "__MACOSX/a/x.png", "a/@eaDir/x.png", "a/.ipynb_checkpoints/x.png")},
    "empty class": Case("c", None, warned=r"1 folder\(s\) without files .*: c/", files=FILES),
    # links
    "link to a file inside": Case("b/x.png", Path("../a/a0.png")),
    "link to a file outside": Case("b/x.png", Path("/etc/passwd"), refused="outside the data"),
    "link to a folder outside": Case("c", Path("/etc"), refused="outside the data"),
    "link to nothing": Case("b/x.png", Path("gone.png"), refused="does not exist"),
    "link to itself": Case("b/x.png", Path("x.png"), refused="in a circle|does not exist"),
    "link to the folder above": Case("b/x", Path(".."), refused="too deep"),
    "hidden link outside": Case("b/.x", Path("/etc/passwd"), files=FILES),
}  # fmt: skip


@pytest.fixture
def root(tmp_path):
    for name in "ab":
        (tmp_path / "raw" / name).mkdir(parents=True)
        for number in range(FILES // 2):
            (tmp_path / "raw" / name / f"{name}{number}.png").write_bytes(encoded())
    return tmp_path / "raw"


def prepared(root):
    out = root.parent / "out"
    images, index = out / "images.h5", out / "index.h5"
    prepare(Dataset.FOLDER, root, 0.25, 0, images, index)
    return images, read_index(index)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("name", CASES)
def test_a_folder_works_or_is_refused_in_one_sentence(root, caplog, name):
    case = CASES[name]
    place = root / case.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(case.content, bytes):
        place.write_bytes(case.content)
    elif case.content is None:
        place.mkdir()
    else:
        place.symlink_to(case.content)
    if case.refused:
        with pytest.raises(InputError, match=case.refused.format(name=place.name)) as caught:
            prepared(root)
        assert str(caught.value).isprintable()
        assert not list((root.parent / "out").glob("*"))
        return
    images, index = prepared(root)
    assert len(index.label) == case.files
    assert {"a", "b"} <= set(index.classes)
    with open_images(images) as opened:
        assert all(image.ndim == 3 for image in opened.rgb(0, case.files))
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == bool(case.warned), warnings
    assert re.search(case.warned, "".join(warnings))


def test_a_class_that_nobody_trains_on_is_named(root, caplog):
    for split, names in (("train", "ab"), ("test", "ac")):
        for name in names:
            (root / split / name).mkdir(parents=True)
            (root / split / name / "x.png").write_bytes(encoded())
    for name in "ab":
        for file in (root / name).iterdir():
            file.unlink()
        (root / name).rmdir()
    _, index = prepared(root)
    assert index.classes == ("a", "b", "c")
    assert "nobody can learn them: c." in caplog.text


def test_the_data_folder_itself_may_be_a_link(root):
    link = root.parent / "link"
    link.symlink_to(root)
    assert len(prepared(link)[1].label) == FILES


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("what", ["a", "a/a0.png"])
def test_what_may_not_be_read_is_named(root, what):
    """As root everything may be read, so another user reads here, where all may look."""
    with tempfile.TemporaryDirectory() as place:
        raw = Path(shutil.copytree(root, Path(place) / "raw"))
        Path(place).chmod(0o755)
        (raw / what).chmod(0)
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError) as caught:
                samples = Dataset.FOLDER.load(request(raw))
                for name in samples.images.names:
                    (raw / name).read_bytes()
        finally:
            os.seteuid(0)
    assert f"{what}: Access is denied" in trouble(caught.value)
