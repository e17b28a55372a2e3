"""Decoding to RGB, and images.h5 in both layouts."""

import io
import multiprocessing
import os
import pickle
import struct
import zlib

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from pfl.artifacts.hdf5 import CHUNK_BYTES
from pfl.data.images.decoding import MAX_PIXELS
from pfl.data.images.images import (
    ImageFiles,
    PixelArray,
    _blocks,
    decode,
    open_images,
    write_images,
)
from pfl.errors import InputError

shapes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))
pixels_rgb = arrays(np.uint8, shapes)
LOSSLESS = {"PNG": {}, "BMP": {}, "PPM": {}, "TIFF": {}, "WEBP": {"lossless": True}}


def encode(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def photo(height=40, width=56, seed=0):
    """A smooth colored picture, which JPEG keeps recognizable."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


# --- decoding


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(pixels=pixels_rgb)
def test_lossless_formats_give_back_the_pixels(kind, pixels):
    data = encode(Image.fromarray(pixels), kind, **LOSSLESS[kind])
    np.testing.assert_array_equal(decode(data, "x"), pixels)


@settings(deadline=None)
@given(grey=arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_grey_becomes_three_equal_channels(grey):
    out = decode(encode(Image.fromarray(grey), "PNG"), "x")
    np.testing.assert_array_equal(out, np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_is_scaled_to_the_nearest_level(kind):
    grey = np.linspace(0, 65535, 600).astype(np.uint16).reshape(20, 30)
    out = decode(encode(Image.fromarray(grey), kind), "x")
    np.testing.assert_array_equal(out[..., 0], np.rint(grey / 257.0))
    np.testing.assert_array_equal(out[..., 1], out[..., 2])


@settings(deadline=None)
@given(pixels=arrays(np.uint8, (3, 5, 4)))
def test_transparency_is_laid_on_white(pixels):
    out = decode(encode(Image.fromarray(pixels), "PNG"), "x")
    alpha = pixels[..., 3:] / 255
    expected = alpha * pixels[..., :3] + (1 - alpha) * 255
    assert np.abs(out - expected).max() <= 1
    opaque = np.broadcast_to(pixels[..., 3:] == 255, out.shape)
    np.testing.assert_array_equal(out[opaque], pixels[..., :3][opaque])


def test_a_transparent_palette_entry_is_white():
    image = Image.fromarray(np.array([[0, 1]], np.uint8), mode="P")
    image.putpalette([10, 20, 30, 200, 100, 50])
    out = decode(encode(image, "PNG", transparency=1), "x")
    assert out.tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_cmyk_is_converted_as_pillow_does():
    image = photo().convert("CMYK")
    data = encode(image, "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decode(data, "x"), expected)


ORIENTED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", ORIENTED)
def test_exif_orientation_is_applied(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = decode(encode(photo(), kind), "x")
    out = decode(encode(photo(), kind, exif=exif), "x")
    np.testing.assert_array_equal(out, ORIENTED[orientation](stored))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(40, 56), (37, 51), (1, 1)])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"progressive": True}])
def test_jpeg_gives_nearly_the_photo_back(mode, size, options):
    image = photo(*size).convert(mode)
    out = decode(encode(image, "JPEG", quality=95, **options), "x")
    expected = np.asarray(image.convert("RGB"))
    assert out.shape == expected.shape
    assert out.flags.writeable
    assert np.abs(out.astype(int) - expected).mean() < 4


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF"])
def test_an_animation_gives_its_first_frame(kind):
    frames = [Image.new("RGB", (6, 4), color) for color in ("red", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert (decode(data, "x") == [255, 0, 0]).all()


def png_claiming(width, height):
    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    end = chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + end


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [int(MAX_PIXELS**0.5) + 1, 60_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side):
    with pytest.raises(InputError, match=r"bomb\.png is too large"):
        decode(png_claiming(side, side), "bomb.png")


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]), at=st.floats(0, 1)
)
def test_a_truncated_image_is_refused_by_name(kind, at):
    data = encode(photo(), kind)
    # No pixel depends on the last bytes, which only end the file (21 in PNG).
    with pytest.raises(InputError, match=r"cut\.img is damaged, truncated or no image"):
        decode(data[: int(at * (len(data) - 22))], "cut.img")


def test_a_png_with_a_wrong_checksum_is_refused_while_preparing(tmp_path):
    data = bytearray(encode(photo(), "PNG"))
    data[data.index(b"IDAT") - 5] ^= 1  # the checksum of the header
    (tmp_path / "bad.png").write_bytes(data)
    with pytest.raises(InputError, match=r"bad\.png"):
        write_images(tmp_path / "images.h5", ImageFiles(tmp_path, ("bad.png",)), {})


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", bytes(500)]
)
def test_what_is_no_image_is_refused_by_name(data):
    with pytest.raises(InputError, match=r"odd\.jpg is damaged, truncated or no image") as caught:
        decode(data, "odd.jpg")
    assert "0x" not in str(caught.value)
    assert "BytesIO" not in str(caught.value)


@pytest.mark.parametrize("values", [np.ones((2, 2), np.float32), np.full((2, 2), 70_000, np.int32)])
def test_values_of_no_known_range_are_refused(values):
    with pytest.raises(InputError, match="which of them is white"):
        decode(encode(Image.fromarray(values), "TIFF"), "odd.tif")


# --- the artifact


@given(pixels=arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 3, st.sampled_from([1, 3]))))
@settings(max_examples=25, deadline=None)
def test_the_pixel_layout_gives_back_rgb(tmp_path_factory, pixels):
    path = tmp_path_factory.mktemp("pixels") / "images.h5"
    write_images(path, PixelArray(pixels), {"dataset": "test"})
    with open_images(path) as images:
        assert len(images) == len(pixels)
        out = images.rgb(0, len(images))
        np.testing.assert_array_equal(out, np.broadcast_to(pixels, out.shape))
        np.testing.assert_array_equal(images.rgb(1, 2), out[1:2])
        assert images.name(0) == "sample 0"


@pytest.fixture
def folder(tmp_path):
    """Files of different sizes, formats and shapes; some larger than one HDF5 chunk."""
    rng = np.random.default_rng(1)
    root = tmp_path / "raw"
    (root / "a").mkdir(parents=True)
    names = []
    for number in range(70):
        side = 700 if number in (3, 4, 66) else 8 + number
        noise = rng.integers(0, 256, (side, side + 1, 3), dtype=np.uint8)
        names.append(f"a/bild-ä-{number}.png")
        Image.fromarray(noise).save(root / names[-1], compress_level=1)
    return ImageFiles(root, tuple(names))


def test_the_encoded_layout_keeps_files_and_names(tmp_path, folder):
    path = tmp_path / "images.h5"
    write_images(path, folder, {})
    with open_images(path) as images:
        assert len(images) == len(folder.names)
        assert tuple(images.name(i) for i in range(70)) == folder.names
        for start, stop in ((0, 3), (2, 70), (66, 66)):
            out = images.rgb(start, stop)
            assert len(out) == stop - start
            for array, name in zip(out, folder.names[start:stop], strict=True):
                np.testing.assert_array_equal(array, np.asarray(Image.open(folder.root / name)))
    with h5py.File(path) as file:
        joined = b"".join((folder.root / name).read_bytes() for name in folder.names)
        assert file["encoded"][...].tobytes() == joined
        assert len(joined) > 2 * CHUNK_BYTES


def test_same_files_same_bytes(tmp_path, folder):
    for name in ("one.h5", "two.h5"):
        write_images(tmp_path / name, folder, {"dataset": "folder"})
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()


def test_a_damaged_file_is_named_and_the_old_artifact_stays(tmp_path, folder):
    path = tmp_path / "images.h5"
    write_images(path, folder.take(np.arange(3)), {})
    before = path.read_bytes()
    victim = folder.root / folder.names[68]
    victim.write_bytes(victim.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"bild-ä-68\.png is damaged, truncated"):
        write_images(path, folder, {})
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["images.h5", "raw"]


@given(pieces=st.lists(st.integers(0, 3 * CHUNK_BYTES), max_size=4))
@settings(max_examples=20, deadline=None)
def test_blocks_join_to_the_same_bytes_in_whole_chunks(pieces):
    data = [bytes([number]) * size for number, size in enumerate(pieces)]
    blocks = list(_blocks(iter(data)))
    assert b"".join(blocks) == b"".join(data)
    assert all(len(block) == CHUNK_BYTES for block in blocks[:-1])
    assert all(0 < len(block) <= CHUNK_BYTES for block in blocks)


@pytest.mark.parametrize("layout", ["pixels", "encoded"])
def test_workers_open_the_file_for_themselves(tmp_path, folder, layout):
    path = tmp_path / "images.h5"
    pixels = PixelArray(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3))
    write_images(path, pixels if layout == "pixels" else folder.take(np.arange(2)), {})
    with open_images(path) as images:
        expected = images.rgb(1, 2)[0]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(images)).rgb(1, 2)[0], expected)
        queue = multiprocessing.get_context("fork").SimpleQueue()

        def work():
            queue.put((images.rgb(1, 2)[0], images._process == os.getpid()))

        worker = multiprocessing.get_context("fork").Process(target=work)
        worker.start()
        worker.join()
        assert worker.exitcode == 0
        got, own = queue.get()
        assert own
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(images.rgb(1, 2)[0], expected)


@pytest.mark.parametrize("layout", ["pixels", "encoded"])
def test_a_damaged_artifact_names_file_and_dataset(tmp_path, folder, layout):
    path = tmp_path / "images.h5"
    pixels = PixelArray(np.full((9, 4, 4, 3), 77, np.uint8))
    write_images(path, pixels if layout == "pixels" else folder.take(np.arange(2)), {})
    data = bytearray(path.read_bytes())
    mark = b"\x4d" * 50 if layout == "pixels" else b"IDAT"
    data[data.index(mark) + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"images.h5.*'{layout}' is damaged"), open_images(path):
        pass


def test_another_kind_of_file_is_refused(tmp_path):
    (tmp_path / "images.h5").write_bytes(b"no HDF5")
    with (
        pytest.raises(InputError, match="does not begin like an artifact"),
        open_images(tmp_path / "images.h5"),
    ):
        pass
