"""What a process computes with: cores, threads, workers, devices, locks, random streams, progress.

Nothing here knows of images, clients or files of results. It imports :mod:`pfl.errors` alone.
"""
