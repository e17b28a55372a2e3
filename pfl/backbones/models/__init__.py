"""Frozen feature extractors by name.

- ``tf_efficientnet_lite0`` with the ImageNet weights of a package from the package index;
- any model of timm, with a weights file or weights from the hub;
- ``mobilenet_v2`` of torchvision, with the official file;
- ``mae``, the encoder that the stage ``pretrain`` has made of public images;
- ``raw-pixels``, no network at all, to compare with;
- ``random-tiny``: a tiny random network for fast tests, good for nothing else.

Nothing is trained here: a backbone is a fixed function from images to m features.
Imports ``mae`` beside it and lower packages.
"""
