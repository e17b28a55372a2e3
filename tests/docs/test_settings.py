"""Parameters in the documents have names that params.yaml has, and values that its stages take."""

import pytest

from tests.docs.kinds import SETTINGS, kind, settings
from tests.docs.pages import ALL
from tests.docs.values import faults

BLOCKS = [block for block in ALL if kind(block) == SETTINGS]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_parameters_are_those_of_the_pipeline(block):
    assert faults(settings(block.text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "prepare: {datset: cifar10}",
        "prepare: {dataset: cifar11}",
        "prepare: {test-fraction: 1.5}",
        "partition: {clients: many}",
        "train: {fedper: {layers: 1}}",
        "aggregate: {privacy: {epsilon: 1.0, delta: big}}",
        "compare: {seeds: [0, -1]}",
        "extract: {backbone: mae, precision: fp16, …}",
    ],
)
def test_a_wrong_parameter_is_found(text):
    assert faults(settings(text))


def test_the_parameters_as_they_stand_are_right():
    from tests.docs.grammar import PARAMS

    assert faults(PARAMS) == []
