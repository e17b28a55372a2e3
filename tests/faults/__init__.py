"""Faults on purpose: what the pipeline does when it is killed, its files change or its disk fills.

A short form of each is part of `make test`; `make faults` plays the long one.
"""
