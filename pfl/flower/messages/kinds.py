"""The messages between server and clients, by Flower's message types."""

FEATURES = "query.features"  # → who a client is, and its features' recipe
MOMENTS = "train.moments"  # → its moments
HEADS = "evaluate.heads"  # sums → what its heads achieve

ADVERTISE = "query.advertise"  # → public keys: a secure sum begins, in place of MOMENTS
SHARE = "query.share"  # neighbors → sealed shares of secrets
MASK = "train.mask"  # neighbors' shares → moments under masks
REVEAL = "query.reveal"  # who is in the sum → the shares that take the masks away

IMAGES = "query.images"  # → who a client is, and what its images are like
ROUND = "train.round"  # shared state → its upload of one round
OWN = "evaluate.own"  # shared state → what its model achieves

GREETINGS = (FEATURES, IMAGES)  # before clients know the run's classes

CLASSES = "classes"  # of a run, in every message after the greeting
