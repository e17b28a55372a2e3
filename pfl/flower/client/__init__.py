"""What a client answers to each message.

Imports ``messages`` beside it and the library.
"""
