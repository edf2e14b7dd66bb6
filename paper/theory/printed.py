"""The paper's formulas as printed, right or wrong, named after where they stand.

Each docstring says where the formula holds. The exact ones are in :mod:`.gradients`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fighter._typing import Float

from .gradients import softmax_backward, usefulness
from .models import (
    Activation,
    FighterLayer,
    Gcn,
    Transformer,
    block_diagonal,
    hop_stack,
    softmax_adjacency,
)


def eq6_output_weights(net: Transformer) -> Float[Tensor, "nodes hidden"]:
    """Return ∂X_TF⁽²⁾/∂W⁽²⁾ = σ(smx(·) X W_V⁽¹˒¹⁾). Holds always."""
    return net.sigma.value(net.attention @ net.X @ net.V)


def eq6_value_weights(net: Transformer) -> Float[Tensor, "nodes width hidden"]:
    """Return ∂X_TF⁽²⁾/∂W_V(:,i) = σ̇ · smx(·) X · W⁽²⁾_(i,:).

    Holds always, if σ̇ is read as the S × S matrix diag(σ'(U_(:,i))).
    """
    AX = net.attention @ net.X
    return _gate_columns(net.sigma.slope(AX @ net.V), AX, net.w)


def eq7_output_weights(net: Gcn) -> Float[Tensor, "nodes hidden"]:
    """Return ∂X_GCN⁽²⁾/∂W⁽²⁾ = σ(A X W⁽¹⁾).

    Holds for A¹ in layer one and κ₂ = 1 in layer two, as Section 4.2 says; Appendix A.3 prints the
    same for "only the A¹ term", where A σ(A X W⁽¹⁾) is right. The powers of ``net`` are not used.
    """
    return net.sigma.value(net.A @ net.X @ net.W_1)


def eq7_hidden_weights(net: Gcn) -> Float[Tensor, "nodes width hidden"]:
    """Return ∂X_GCN⁽²⁾/∂W⁽¹⁾_(:,i) = σ̇ A X W⁽²⁾_(i,:), σ̇ read as diag(σ'(U_(:,i))).

    Holds for A¹ in layer one and κ₂ = 1 in layer two; with A¹ in both, another A goes in front.
    The powers of ``net`` are not used.
    """
    gates = net.sigma.slope(net.A @ net.X @ net.W_1)
    return _gate_columns(gates, net.A @ net.X, net.w)


def _gate_columns(gates: Tensor, M: Tensor, w: Tensor) -> Float[Tensor, "nodes width hidden"]:
    """Return diag(gates_(:,i)) M w_i for every hidden unit i."""
    return torch.stack([gates[:, i].diag() @ M * w[i] for i in range(len(w))], dim=-1)


def eq8_query_weights(
    net: Transformer, *, gate_in_place: bool = True, full_softmax: bool = False
) -> Float[Tensor, "nodes width key"]:
    """Return ∂f_j/∂W_Q(:,i).

    σ̇_j τ X_j · K_(:,i)ᵀ (diag(smx ξ) − smx ξᵀ smx ξ) X W_V W⁽²⁾, ξ = τ Q_ji K_(:,i)ᵀ.

    Holds if the other p − 1 components add a constant to every row of the logits (so for p = 1),
    and σ' is the same for all hidden units of a node. Two charitable readings tell these apart:
    ``gate_in_place`` moves σ' to where it belongs, between W_V and W⁽²⁾ (otherwise σ̇_j is the mean
    over the hidden units); ``full_softmax`` uses the whole attention row in place of smx ξ.
    """
    return _printed_attention_weights(net, net.X @ net.W_K, gate_in_place, full_softmax)


def eq9_key_weights(
    net: Transformer, *, gate_in_place: bool = True, full_softmax: bool = False
) -> Float[Tensor, "nodes width key"]:
    """Return ∂f_j/∂W_K(:,i).

    σ̇_j τ X_j · Q_(:,i)ᵀ (diag(smx ξ) − smx ξᵀ smx ξ) X W_V W⁽²⁾, ξ = τ Q_ji K_(:,i)ᵀ.

    Holds for d = p = 1 only: X_j and the sources X_s have changed places. Readings as in Eq. 8.
    """
    return _printed_attention_weights(net, net.X @ net.W_Q, gate_in_place, full_softmax)


def _printed_attention_weights(
    net: Transformer, other: Tensor, gate_in_place: bool, full_softmax: bool
) -> Float[Tensor, "nodes width key"]:
    """Return what Eqs. 8 and 9 share; ``other`` is K for W_Q and Q for W_K."""
    gains = _printed_gains(net, gate_in_place)
    units = [
        softmax_backward(net.attention if full_softmax else _softmax_of_unit(net, i), gains)
        @ other[:, i]
        for i in range(other.shape[1])
    ]
    return net.scale * net.X[:, :, None] * torch.stack(units, dim=-1)[:, None, :]


def _softmax_of_unit(net: Transformer, i: int) -> Tensor:
    """Return smx(τ Q_ji K_(:,i)ᵀ) as row j: the softmax of the i-th rank-one term alone."""
    Q, K = net.X @ net.W_Q, net.X @ net.W_K
    return softmax_adjacency(Q[:, i : i + 1], K[:, i : i + 1], net.scale)


def _printed_gains(net: Transformer, gate_in_place: bool) -> Tensor:
    """Return σ̇_j X W_V W⁽²⁾ as row j."""
    if gate_in_place:
        return usefulness(net)
    gate = net.sigma.slope(net.attention @ net.X @ net.V).mean(-1)
    return gate[:, None] * (net.X @ net.V @ net.w)[None, :]


def appendix_gcn_output_weights(net: Gcn) -> Float[Tensor, "nodes outputs"]:
    """Return ∂f/∂W⁽²⁾ = A^[κ₂] blkdiag(σ(A^[κ₁] blkdiag(X; κ₁) W⁽¹⁾); κ₂) (Appendix A.3).

    Holds for powers 0…κ−1; its size is n × κ₂h₁, where the paper's under-brace says 1 × κ₂h₁.
    """
    kappa_1, kappa_2 = len(net.powers_1), len(net.powers_2)
    M = hop_stack(net.A, kappa_1) @ block_diagonal(net.X, kappa_1)
    return hop_stack(net.A, kappa_2) @ block_diagonal(net.sigma.value(M @ net.W_1), kappa_2)


def appendix_gcn_hidden_weights(net: Gcn) -> Float[Tensor, "nodes features hidden"]:
    """Return ∂f/∂W⁽¹⁾ (Appendix A.3).

    ∂f/∂W⁽¹⁾_(:,i) = A^[κ₂] (σ̇ · A^[κ₁] blkdiag(X; κ₁) · W⁽²⁾_(i−h₁+m h₁))_{m=1…κ₂}.

    Holds for powers 0…κ−1, if σ̇ is read as diag(σ'(U_(:,i))).
    """
    kappa_1, kappa_2, h_1 = len(net.powers_1), len(net.powers_2), net.W_1.shape[1]
    M = hop_stack(net.A, kappa_1) @ block_diagonal(net.X, kappa_1)
    gates = net.sigma.slope(M @ net.W_1)
    columns: list[Tensor] = []
    for i in range(h_1):
        blocks = [gates[:, i].diag() @ M * net.w[i + m * h_1] for m in range(kappa_2)]
        columns.append(hop_stack(net.A, kappa_2) @ torch.cat(blocks))
    return torch.stack(columns, dim=-1)


def appendix_relu_shortcut(M: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes features"]:
    """Return σ̇ · M = σ(M) for ReLU, M = A^[κ₁] blkdiag(X; κ₁) (Appendix A.3).

    Fails in general: the gate has the sign of M W⁽¹⁾_(:,i), not of M. Holds if M and W⁽¹⁾ are > 0.
    """
    return torch.relu(M)


def algorithm_1_skip(
    X: Float[Tensor, "nodes width"], U: Float[Tensor, "nodes width"], sigma: Activation
) -> Float[Tensor, "nodes width"]:
    """Return Algorithm 1's residual, σ(U) + U, in which the input X does not occur.

    Printed are X ← σ(X̃), X ← X + X̃, with X̃ = U the pre-activation by then.
    """
    return sigma.value(U) + U


def algorithm_1(
    X: Float[Tensor, "nodes width"],
    layers: Sequence[FighterLayer],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes out"]:
    """Run Algorithm 1 line by line, without its optional lines; it has no biases.

    Runs only if every κ is 1: the last line raises the S × κS matrix A^[κ] to powers. The last
    layer takes its κ from the last pass of the loop, as printed.
    """
    kappa = 1
    for at in layers[:-1]:
        A = softmax_adjacency(X @ at.W_Q, X @ at.W_K, scale)
        kappa = len(at.W)
        U = hop_stack(A, kappa) @ block_diagonal(X, kappa) @ torch.cat(list(at.W))
        X = sigma.value(U)
    last = layers[-1]
    A = softmax_adjacency(X @ last.W_Q, X @ last.W_K, scale)
    stacked = hop_stack(A, kappa)
    replicated = block_diagonal(X, kappa)
    return hop_stack(stacked, len(last.W)) @ replicated @ torch.cat(list(last.W))
