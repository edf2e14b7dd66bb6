"""The paper's work: its theory, its experiments and further studies; run as ``python -m paper``.

This package is not installed with ``fighter``: it is run from the root of a checkout.
"""
