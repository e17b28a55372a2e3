"""How to run an exported model, in a few lines that a test runs."""

from pfl.cli.deployment.model import Model

TEXT = """# {backbone}: {kind} head of client {client}

Input `pixels`: (n, 3, {size}, {size}), uint8, RGB 0 … 255, resized and cropped as below.
Output `scores`: (n, {classes}), float32, in the order of `classes` in `model.json`: estimates of
the classes' probabilities by ridge regression, so that they may lie below 0 or above 1. The largest
is the prediction. Normalization, backbone, rounding to fixed point and head are in the graph.

```python
import json, torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

classes = json.load(open("model.json"))["classes"]
model = torch.export.load("model.pt2").module()
image = F.pil_to_tensor(Image.open("photo.png").convert("RGB"))[None]
resized = F.resize(image, {sides}, F.InterpolationMode("{interpolation}"), antialias=True)
print(classes[model(F.center_crop(resized, [{size}, {size}])).argmax()])
```
{onnx}
`head.safetensors` holds the head alone, `head` ({features}, {classes}): scores are
features @ head, with features rounded to multiples of {step}.
"""
ONNX = """
The same without PyTorch: `onnxruntime.InferenceSession("model.onnx").run(None, {"pixels": pixels})`
with an array of pixels gives the scores in a list of one.
"""


def readme(model: Model, files: tuple[str, ...]) -> str:
    """The README of an exported model."""
    transform = model.backbone.transform
    side = str(transform.resize)
    return TEXT.format(
        backbone=model.backbone.description,
        kind=model.kind.value,
        client=model.client,
        size=transform.size,
        classes=len(model.classes),
        features=model.backbone.m,
        sides=f"[{side}, {side}]" if transform.squash else f"[{side}]",
        interpolation=transform.interpolation,
        onnx=ONNX if "model.onnx" in files else "",
        step=model.step,
    )
