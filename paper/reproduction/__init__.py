"""The paper's tables and figures, produced again by this code.

An experiment is a module with ``TITLE`` and ``WORDS`` for the page, ``plan`` (its runs),
``perform`` (one run, unless another module performs them) and ``section`` (its tables and figures).
"""
