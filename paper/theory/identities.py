"""Every claim of the paper that can be computed, checked on fresh numbers.

>>> from paper.theory import check_all, render
>>> table = render(check_all(seed=0, size=8))
"""

from collections.abc import Callable

from . import backward, claims, forward
from .record import TOLERANCE, Draw, Identity
from .table import render

__all__ = ["IDENTITIES", "TOLERANCE", "Identity", "check_all", "render"]

IDENTITIES: tuple[Callable[[Draw], Identity], ...] = (
    forward.reorganised_transformer,
    forward.transformer_is_fighter,
    forward.transformer_with_biases_is_fighter,
    forward.key_bias_is_dead,
    forward.hop_biases_act_by_their_sum,
    forward.block_form_is_sum_of_hops,
    forward.horner_is_sum_of_hops,
    forward.conventional_gcn_is_binomial,
    forward.kappa_one_has_no_graph,
    forward.skip_connection,
    claims.residual_needs_output_projection,
    claims.powers_average,
    claims.powers_add_no_edges,
    claims.local_hops_diffuse,
    claims.causal_powers_sink,
    backward.gcn_output_weights,
    backward.gcn_hidden_weights,
    backward.relu_shortcut,
    backward.gcn_single_hop,
    backward.gcn_single_hop_twice,
    backward.transformer_output_weights,
    backward.transformer_value_weights,
    backward.transformer_query_softmax,
    backward.transformer_query_gate,
    backward.transformer_key,
    backward.covariance_reading,
    backward.layer_input,
    backward.layer_query,
    backward.layer_key,
    backward.layer_hop_weights,
    backward.layer_adjacency,
    backward.layer_per_node,
    claims.factored_step,
)


def check_all(seed: int = 0, size: int = 8) -> list[Identity]:
    """Measure every identity, in the order of the paper, each on its own draw from ``seed``.

    Args:
        seed: seed of the inputs (default: 0).
        size: scales the number of nodes and the widths, 1 to 64 (default: 8).
    """
    return [identity(Draw(seed, size)) for identity in IDENTITIES]
