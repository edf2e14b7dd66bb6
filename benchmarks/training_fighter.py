"""A worker of ``benchmarks.training``: ``Forecaster.fit`` with a pause between turns of steps.

With ``"steps"`` in the settings it does not wait for requests: it trains two epochs of that many
steps, each with its validation, to measure the memory of a fit.
"""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from typing import Any
from unittest.mock import patch

from benchmarks.stepping import Steps, peak_mb


def main() -> None:
    settings, steps = json.loads(sys.argv[1]), Steps()
    warnings.simplefilter("ignore")
    clock = time.perf_counter()
    import torch
    from torch import Tensor, nn

    from fighter import Forecaster
    from fighter.data import Windows
    from fighter.data.files import read_table
    from fighter.training import train

    imported = time.perf_counter() - clock
    clock = time.perf_counter()
    table = read_table(settings["table"])
    read = time.perf_counter() - clock
    clock = time.perf_counter()
    fixed = settings.get("steps")

    class Paused(Windows):
        """Windows that yield batches on request, epoch after epoch without end."""

        def batches(
            self, batch_size: int, generator: torch.Generator | None = None
        ) -> Iterator[Tensor]:
            if fixed:
                yield from islice(super().batches(batch_size, generator), fixed)
                return
            more = steps.wait()
            while more:
                for index in super().batches(batch_size, generator):
                    yield index
                    more = steps.done()
                    if not more:
                        break

    def paused(
        network: nn.Module, windows: Windows, validation: Windows | None, *rest: Any, **options: Any
    ) -> list[dict[str, Any]]:
        steps.say(
            model=repr(model),
            parameters=sum(p.numel() for p in network.parameters() if p.requires_grad),
            import_s=imported,
            read_s=read,
            prepare_s=time.perf_counter() - clock,
            threads=torch.get_num_threads(),
            versions={"torch": version("torch")},
        )
        return train(
            network, Paused(**vars(windows)), validation if fixed else None, *rest, **options
        )

    model = Forecaster.from_flat(
        **settings["options"], max_epochs=2 if fixed else 1, device="cpu", verbose=False
    )
    with patch("fighter.forecasting.learn.train", paused):
        model.fit(table)
    steps.say(peak_mb=peak_mb())


if __name__ == "__main__":
    main()
