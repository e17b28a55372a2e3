"""FedHiP [arXiv 2508.04470]: what a client sends, the server's answer, and each client's heads.

Imports ``artifacts`` and ``ridge``.
"""
