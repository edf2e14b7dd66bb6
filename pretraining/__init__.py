"""Train the network of ``fighter.models.pretrained`` on synthetic series, and score it."""
