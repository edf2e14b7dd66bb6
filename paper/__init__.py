"""The paper's work: theory, reproduction and studies, run from a checkout."""
