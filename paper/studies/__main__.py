"""Run one study, or write the accuracy pages: ``python -m paper.studies NAME …``."""

import sys
from collections.abc import Sequence
from importlib import import_module

from fighter.errors import FighterError, did_you_mean

COMMANDS = {
    "ablations": "measure what each part of the default forecaster is worth",
    "search": "compare settings around the default without the test rows",
    "small": "compare the default with simple models on small tables",
    "faithfulness": "measure how faithful explanations are, and what they cost",
    "page": "write docs/accuracy.md and docs/accuracy-runs.md from stored results",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study that the first argument names; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<14}{summary}" for name, summary in COMMANDS.items())
        print(f"usage: python -m paper study NAME …\n\n{lines}\n\nNAME --help shows its options.")
        print("Example: python -m paper study ablations --data weather ETTh1 --jobs 16")
        return 0
    name, *rest = given
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        print(f"there is no study {name!r}.{hint}", file=sys.stderr)
        return 2
    try:
        import_module(f"paper.studies.{name}").main(rest)
    except FighterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
