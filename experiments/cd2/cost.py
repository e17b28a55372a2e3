"""What a run is likely to cost, in minutes of one core; measured values, good to a third or so."""

from collections.abc import Mapping

from experiments.studies import Setting

# Images trained a second by an idle core, plain SGD, batches of 128: LeNet-5
# as docs/training.md's rounds were, the others by what a step of theirs costs in steps of it.
SPEED = {"lenet5": 12_000.0, "resnet20": 410.0, "resnet32a": 270.0, "resnet34": 17.0}
STEP = 0.0009  # seconds a step costs besides its images: what small batches pay for
# A round in rounds of plain training, from docs/training.md and docs/reproduction.md.
FACTOR = {
    "cd2-pfed": 1.57, "fedrep": 1.5, "ditto": 2.0, "apfl": 2.6, "pfedme": 5.2, "fedprox": 1.2,
    "fedrod": 1.1,
}  # fmt: skip
TESTED = 0.2  # of plain training of as many images as are trained: both local tests
SAMPLES = {"cifar10": 50_000, "cifar100": 50_000, "histology": 3_750}
RATINGS = 15_000
START = 0.4  # minutes: imports, data, tests after the last round


def minutes(setting: Setting, stated: Mapping[str, object]) -> float:
    """Core-minutes of one run; ``stated`` are the rounds' values that hold where it has none."""
    values: dict[str, object] = {**stated, **setting.rounds}

    def number(key: str) -> float:
        return float(str(values[key]))

    samples = RATINGS if setting.data.raters else SAMPLES[setting.data.source]
    seen = samples * number("fraction") * number("epochs") * (1 - number("validation-fraction"))
    speed = SPEED[str(values["network"])]
    trained = seen / speed + seen / number("batch-size") * STEP
    tested = TESTED * samples / speed / number("evaluate-every")
    if setting.method in ("fedavg-ft", "fedbabu"):  # fine-tuned for each test
        tested += 2 * samples / speed / number("evaluate-every")
    a_round = trained * FACTOR.get(setting.method, 1.0) + tested
    return START + number("rounds") * a_round / 60
