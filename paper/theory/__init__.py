"""The paper's claims as executable identities: exact gradients, the printed ones, and a table.

- :mod:`.models`: the GCN, the Transformer and the Fighter layer as the paper writes them;
- :mod:`.gradients`: their exact gradients in closed form;
- :mod:`.printed`: the formulas as printed;
- :mod:`.identities`: :func:`check_all` measures all of them on fresh numbers.
"""

from .identities import TOLERANCE, Identity, check_all, render

__all__ = ["TOLERANCE", "Identity", "check_all", "render"]
