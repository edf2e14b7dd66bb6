"""``fighter theory``."""

from .. import theory as paper


def theory(seed: int = 0, size: int = 8) -> int:
    """Check every identity of the paper on freshly drawn numbers, the printed form and ours.

    Example: fighter theory --seed 3 --size 16

    Args:
        seed: seed of the inputs.
        size: how large the drawn matrices are, 1 to 64.
    """
    identities = paper.check_all(seed=seed, size=size)
    print(paper.render(identities))
    return 0 if all(identity.holds for identity in identities) else 1
