"""Sections of a parameter file that a command names."""

import pytest

from pfl.errors import InputError
from stages._section import read_section


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("train:\n  fedper: {private-layers: 1}\n  fedavg:\nseeds: [0, 2]\n")
    return path


def test_a_section_is_read(place):
    assert read_section(f"{place}:train.fedper") == {"private-layers": 1}
    assert list(read_section(f"{place}:train")) == ["fedper", "fedavg"]


def test_an_empty_section_is_empty(place):
    assert read_section(f"{place}:train.fedavg") == {}


@pytest.mark.parametrize(
    "section", ["train.fedsgd", "train.fedper.private-layers.x", "", "seeds.a"]
)
def test_a_section_must_be_there(place, section):
    with pytest.raises(InputError, match="cannot be read"):
        read_section(f"{place}:{section}")


def test_a_file_must_be_there_and_be_yaml(place):
    place.write_text("a: [1")
    for name in (place, place.with_name("other.yaml")):
        with pytest.raises(InputError, match="cannot be read"):
            read_section(f"{name}:train")


def test_a_section_has_a_form(place):
    with pytest.raises(InputError, match="must be names with values"):
        read_section(f"{place}:seeds")
