"""The paper's formulas as printed, right or wrong, named after where they stand.

Each docstring says where the formula holds. The exact ones are in :mod:`.gradients`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fighter._typing import Float

from .gradients import softmax_backward, usefulness
from .models import Activation, FighterLayer, block_diagonal, hop_stack, softmax_adjacency


def eq6_output_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes hidden"]:
    """∂X_TF⁽²⁾/∂W⁽²⁾ = σ(smx(·) X W_V⁽¹˒¹⁾). Holds always."""
    return sigma.value(softmax_adjacency(X @ W_Q, X @ W_K, scale) @ X @ V)


def eq6_value_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes width hidden"]:
    """∂X_TF⁽²⁾/∂W_V(:,i) = σ̇ · smx(·) X · W⁽²⁾_(i,:).

    Holds always, if σ̇ is read as the S × S matrix diag(σ'(U_(:,i))).
    """
    AX = softmax_adjacency(X @ W_Q, X @ W_K, scale) @ X
    gates = sigma.slope(AX @ V)
    return torch.stack([gates[:, i].diag() @ AX * w[i] for i in range(len(w))], dim=-1)


def eq7_output_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "width hidden"],
    sigma: Activation,
) -> Float[Tensor, "nodes hidden"]:
    """∂X_GCN⁽²⁾/∂W⁽²⁾ = σ(A X W⁽¹⁾).

    Holds for A¹ in layer one and κ₂ = 1 in layer two, as Section 4.2 says; Appendix A.3 prints the
    same for "only the A¹ term", where A σ(A X W⁽¹⁾) is right.
    """
    return sigma.value(A @ X @ W_1)


def eq7_hidden_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
) -> Float[Tensor, "nodes width hidden"]:
    """∂X_GCN⁽²⁾/∂W⁽¹⁾_(:,i) = σ̇ A X W⁽²⁾_(i,:), σ̇ read as diag(σ'(U_(:,i))).

    Holds for A¹ in layer one and κ₂ = 1 in layer two; with A¹ in both, another A goes in front.
    """
    gates = sigma.slope(A @ X @ W_1)
    return torch.stack([gates[:, i].diag() @ A @ X * w[i] for i in range(len(w))], dim=-1)


def eq8_query_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
    *,
    gate_in_place: bool = True,
    full_softmax: bool = False,
) -> Float[Tensor, "nodes width key"]:
    """∂f_j/∂W_Q(:,i) = σ̇_j τ X_j · K_(:,i)ᵀ (diag(smx ξ) − smx ξᵀ smx ξ) X W_V W⁽²⁾,
    ξ = τ Q_ji K_(:,i)ᵀ.

    Holds if the other p − 1 components add a constant to every row of the logits (so for p = 1),
    and σ' is the same for all hidden units of a node. Two charitable readings tell these apart:
    ``gate_in_place`` moves σ' to where it belongs, between W_V and W⁽²⁾ (otherwise σ̇_j is the mean
    over the hidden units); ``full_softmax`` uses the whole attention row in place of smx ξ.
    """
    Q, K = X @ W_Q, X @ W_K
    gains = _printed_gains(X, W_Q, W_K, V, w, sigma, scale, gate_in_place)
    weights = [
        softmax_backward(_printed_softmax(Q, K, i, scale, full_softmax), gains) @ K[:, i]
        for i in range(K.shape[1])
    ]
    return scale * X[:, :, None] * torch.stack(weights, dim=-1)[:, None, :]


def eq9_key_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
    *,
    gate_in_place: bool = True,
    full_softmax: bool = False,
) -> Float[Tensor, "nodes width key"]:
    """∂f_j/∂W_K(:,i) = σ̇_j τ X_j · Q_(:,i)ᵀ (diag(smx ξ) − smx ξᵀ smx ξ) X W_V W⁽²⁾.

    Holds for d = p = 1 only: X_j and the sources X_s have changed places. Readings as in Eq. 8.
    """
    Q, K = X @ W_Q, X @ W_K
    gains = _printed_gains(X, W_Q, W_K, V, w, sigma, scale, gate_in_place)
    weights = [
        softmax_backward(_printed_softmax(Q, K, i, scale, full_softmax), gains) @ Q[:, i]
        for i in range(K.shape[1])
    ]
    return scale * X[:, :, None] * torch.stack(weights, dim=-1)[:, None, :]


def _printed_softmax(Q: Tensor, K: Tensor, i: int, scale: float, full: bool) -> Tensor:
    """Row j: smx(τ Q_ji K_(:,i)ᵀ), the softmax of the i-th rank-one term alone."""
    if full:
        return softmax_adjacency(Q, K, scale)
    return softmax_adjacency(Q[:, i : i + 1], K[:, i : i + 1], scale)


def _printed_gains(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    V: Tensor,
    w: Tensor,
    sigma: Activation,
    scale: float,
    gate_in_place: bool,
) -> Tensor:
    """σ̇_j X W_V W⁽²⁾ as row j."""
    A = softmax_adjacency(X @ W_Q, X @ W_K, scale)
    if gate_in_place:
        return usefulness(A, X, V, w, sigma)
    gate = sigma.slope(A @ X @ V).mean(-1)
    return gate[:, None] * (X @ V @ w)[None, :]


def appendix_gcn_output_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "features hidden"],
    w: Float[Tensor, " outputs"],
    sigma: Activation,
    kappa_1: int,
    kappa_2: int,
) -> Float[Tensor, "nodes outputs"]:
    """∂f/∂W⁽²⁾ = A^[κ₂] blkdiag(σ(A^[κ₁] blkdiag(X; κ₁) W⁽¹⁾); κ₂) (Appendix A.3).

    Holds always; its size is n × κ₂h₁, where the paper's under-brace says 1 × κ₂h₁.
    """
    hidden = sigma.value(hop_stack(A, kappa_1) @ block_diagonal(X, kappa_1) @ W_1)
    return hop_stack(A, kappa_2) @ block_diagonal(hidden, kappa_2)


def appendix_gcn_hidden_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "features hidden"],
    w: Float[Tensor, " outputs"],
    sigma: Activation,
    kappa_1: int,
    kappa_2: int,
) -> Float[Tensor, "nodes features hidden"]:
    """∂f/∂W⁽¹⁾_(:,i) = A^[κ₂] (σ̇ · A^[κ₁] blkdiag(X; κ₁) · W⁽²⁾_(i−h₁+m h₁))_{m=1…κ₂}.

    Appendix A.3. Holds always, if σ̇ is read as diag(σ'(U_(:,i))).
    """
    M = hop_stack(A, kappa_1) @ block_diagonal(X, kappa_1)
    gates = sigma.slope(M @ W_1)
    h_1 = W_1.shape[1]
    columns: list[Tensor] = []
    for i in range(h_1):
        blocks = [gates[:, i].diag() @ M * w[i + m * h_1] for m in range(kappa_2)]
        columns.append(hop_stack(A, kappa_2) @ torch.cat(blocks))
    return torch.stack(columns, dim=-1)


def appendix_relu_shortcut(M: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes features"]:
    """σ̇ · A^[κ₁] blkdiag(X; κ₁) = σ(A^[κ₁] blkdiag(X; κ₁)) for ReLU (Appendix A.3).

    Fails in general: the gate has the sign of M W⁽¹⁾_(:,i), not of M. Holds if M and W⁽¹⁾ are > 0.
    """
    return torch.relu(M)


def algorithm_1_skip(
    X: Float[Tensor, "nodes width"], U: Float[Tensor, "nodes width"], sigma: Activation
) -> Float[Tensor, "nodes width"]:
    """X ← σ(X̃), X ← X + X̃, with X̃ = U the pre-activation by then: σ(U) + U, no skip of X."""
    return sigma.value(U) + U


def algorithm_1(
    X: Float[Tensor, "nodes width"],
    layers: Sequence[FighterLayer],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes out"]:
    """Algorithm 1 line by line, without its optional lines; it has no biases.

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
