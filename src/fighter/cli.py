"""The command line: parses, calls, prints."""

import sys
from collections.abc import Sequence

import tyro
from tyro.extras import SubcommandApp

from .errors import FighterError

app = SubcommandApp()


@app.command
def theory(seed: int = 0, size: int = 8) -> int:
    """Check every identity of the paper on freshly drawn numbers, the printed form and ours.

    Example: fighter theory --seed 3 --size 16

    Args:
        seed: seed of the inputs.
        size: how large the drawn matrices are, 1 to 64.
    """
    from .theory import check_all, render

    identities = check_all(seed=seed, size=size)
    print(render(identities))
    return 0 if all(identity.holds for identity in identities) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when it worked, 1 when it did not; a command line that cannot be read exits with 2.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        result = app.cli(
            prog="fighter",
            description="Time series forecasting whose model can be read as a graph. "
            "Add --debug to any command to see the traceback of an error.",
            args=[argument for argument in arguments if argument != "--debug"] or ["--help"],
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except FighterError as error:
        if debug:
            raise
        print(f"fighter: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fighter: stopped", file=sys.stderr)
        return 130
    return result or 0
