"""The words that every report has in common.

The tests of a client's model or head: ``local-test``, on the client's own test samples;
``global-test``, on the test samples of all; and of the ensemble of all clients' models:
``new-test``, on the test samples of all, and ``external-test``, on a group that took no part.
``client-mean`` beside the latter is the mean over clients of each one's own model there.
"""

from enum import StrEnum

LOCAL_TEST, GLOBAL_TEST = "local-test", "global-test"
NEW_TEST, EXTERNAL_TEST = "new-test", "external-test"
CLIENT_MEAN = "client-mean"
MEAN_SCORE, MEAN_PROBABILITY = "mean-score", "mean-probability"  # ensembles in tables
EXTERNAL_EACH = f"{EXTERNAL_TEST}:{CLIENT_MEAN}"
VALIDATION = "validation"
HEAD_PREFIX = "heads:"  # of what was trained by gradients on cached features, beside fedhip:
UPLOAD_BYTES = "upload-bytes"  # what all clients sent in all rounds together

# FedHiP's heads: L_k, G and P_k.
LOCAL, GLOBAL, PERSONALIZED = "local", "global", "personalized"
HEADS = (LOCAL, GLOBAL, PERSONALIZED)


class HeadKind(StrEnum):
    """Which head of a client, where one is to be chosen."""

    personalized = PERSONALIZED
    local = LOCAL
    shared = GLOBAL
