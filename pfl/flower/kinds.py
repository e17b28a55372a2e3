"""The messages between server and clients, by Flower's message types."""

FEATURES = "query.features"  # → who a client is, and its features' recipe
MOMENTS = "train.moments"  # → its moments
HEADS = "evaluate.heads"  # sums → what its heads achieve

IMAGES = "query.images"  # → who a client is, and what its images are like
ROUND = "train.round"  # shared state → its upload of one round
OWN = "evaluate.own"  # shared state → what its model achieves
