"""Features of all images: computed in batches, resumed after a kill, in shards on several machines.

Imports ``models`` beside it and ``data``.
"""
