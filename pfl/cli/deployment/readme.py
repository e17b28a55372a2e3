"""How to run an exported model, in a few lines that a test runs."""

from pfl.cli.deployment.model import Model

TEXT = """# {backbone}: {kind} head of client {client}

Input `pixels`: (n, 3, {size}, {size}), uint8, RGB 0 … 255, as `preprocess.py` makes them of a file:
decoded, turned upright, laid on white, resized and cropped as for the features that the head was
fitted to. Output `scores`: (n, {classes}), float32, in the order of `classes` in `model.json`:
log-probabilities but for a constant, so that their softmax are probabilities. Normalization,
backbone, rounding to fixed point, head and class prior are in the graph.

```python
import json
import torch
from preprocess import preprocess

facts = json.load(open("model.json"))
model = torch.export.load("model.pt2").module()
scores = model(preprocess("photo.png"))[0]
probabilities = scores.softmax(0)
print(facts["classes"][int(scores.argmax())])
```
{onnx}{swap}
`head.safetensors` holds the head alone: with features rounded to multiples of {step}, scores are
features @ `weight` ({features}, {classes}) + `bias` + {power:.6g} · `log_ratio`.
"""
ONNX = """
The same in ONNX: `onnxruntime.InferenceSession("model.onnx").run(None, {"pixels": pixels.numpy()})`
gives the scores in a list of one.
"""
SWAP = """
## Where classes come in other shares

The scores hold for samples whose classes have the shares `prior.shares` in `model.json`
({prior}), which are in them as `prior.power` · `prior.log-ratio`; the logarithm is of shares over
everybody's. Other shares, each above 0, take their place:

```python
prior = facts["prior"]
shares = torch.full(({classes},), 1 / {classes})
everybody, counted = torch.tensor(prior["everybody"]), torch.tensor(prior["log-ratio"])
log_ratio = torch.where(everybody > 0, shares / everybody, 1).log()
scores = scores + prior["power"] * (log_ratio - counted)
```
"""


def readme(model: Model, files: tuple[str, ...]) -> str:
    """The README of an exported model."""
    classes = len(model.classes)
    return TEXT.format(
        backbone=model.backbone.description,
        kind=model.kind.value,
        client=model.whose,
        size=model.backbone.transform.size,
        classes=classes,
        features=model.backbone.m,
        onnx=ONNX if "model.onnx" in files else "",
        swap=SWAP.format(classes=classes, prior=model.prior) if model.head.prior else "",
        step=model.step,
        power=model.head.prior,
    )
