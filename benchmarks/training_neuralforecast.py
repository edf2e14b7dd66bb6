"""A worker of ``benchmarks.training``: one model of neuralforecast, in an environment of its own.

Validation, logging, checkpoints and the progress bar are off.
"""
# pyright: reportMissingImports=false

import json
import logging
import sys
import time
import warnings
from importlib.metadata import version

from benchmarks.stepping import Steps, peak_mb


def main() -> None:
    settings, steps = json.loads(sys.argv[1]), Steps()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    clock = time.perf_counter()
    import pandas as pd
    import torch
    from neuralforecast import NeuralForecast, models
    from neuralforecast.losses.pytorch import MAE
    from pytorch_lightning import Callback, Trainer

    imported = time.perf_counter() - clock
    clock = time.perf_counter()
    table = pd.read_parquet(settings["table"])
    table["available_mask"] = table["y"].notna().astype("float32")  # neuralforecast: observed
    table["y"] = table["y"].fillna(table.groupby("unique_id")["y"].transform("mean"))
    read = time.perf_counter() - clock
    clock = time.perf_counter()

    class Pause(Callback):
        """Wait for requests before the first step and after each turn."""

        def on_train_start(self, trainer: Trainer, pl_module: object) -> None:
            del pl_module
            steps.say(
                model=settings["model"],
                parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
                import_s=imported,
                read_s=read,
                prepare_s=time.perf_counter() - clock,
                threads=torch.get_num_threads(),
                versions={name: version(name) for name in ("neuralforecast", "torch")},
            )
            trainer.should_stop = not steps.wait()

        def on_train_batch_end(self, trainer: Trainer, *rest: object) -> None:
            del rest
            trainer.should_stop = not steps.done()

    model = getattr(models, settings["model"])(
        **settings["options"],
        loss=MAE(),
        max_steps=10**6,
        val_check_steps=10**6,
        early_stop_patience_steps=-1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        callbacks=[Pause()],
    )
    NeuralForecast([model], freq=settings["freq"], local_scaler_type="standard").fit(table)
    steps.say(peak_mb=peak_mb())


if __name__ == "__main__":
    main()
