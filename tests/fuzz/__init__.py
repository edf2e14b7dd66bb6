"""Fuzzers: generated tables, damaged models, kills and threads, each case numbered.

``make fuzz`` runs all of them; ``python -m tests.fuzz tables --case 17`` repeats one case.
"""
