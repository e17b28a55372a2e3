"""The methods over real sites, on the federated engine Flower (https://flower.ai).

An adapter and nothing more: what is computed is in :mod:`pfl.fedhip.closed_form`,
:mod:`pfl.fedhip.selection` and :mod:`pfl.training.rounds`, as in the pipeline; here it is only
told who computes which part, and what goes over the wire. This package alone imports ``flwr``,
which ``pip install '.[flower]'`` brings.
"""
