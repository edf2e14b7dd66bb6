"""Exact gradients in closed form: what the paper's Section 4.2 and its appendix set out to give.

A gradient of the node-wise output f (S numbers) is its Jacobian: row j is the gradient of f_j, so
the weight of a loss Σ_j c_j f_j is moved by Σ_j c_j · row j. ∘ is the elementwise product.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fighter._typing import Bool, Float

from .models import Activation, hop_features, softmax_adjacency

# --- two-layer multi-hop GCN ---------------------------------------------------------------------


def gcn_output_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "features hidden"],
    w: Float[Tensor, " outputs"],
    sigma: Activation,
    powers_1: Sequence[int],
    powers_2: Sequence[int],
) -> Float[Tensor, "nodes outputs"]:
    """∂f/∂w = A^[κ₂] blkdiag(σ(M W⁽¹⁾); κ₂), M = A^[κ₁] blkdiag(X; κ₁).

    Stands for the W⁽²⁾ gradient of Appendix A.3 and, with powers (1,) then (0,), of Eq. 7.
    """
    return hop_features(A, sigma.value(hop_features(A, X, powers_1) @ W_1), powers_2)


def gcn_hidden_weights(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W_1: Float[Tensor, "features hidden"],
    w: Float[Tensor, " outputs"],
    sigma: Activation,
    powers_1: Sequence[int],
    powers_2: Sequence[int],
) -> Float[Tensor, "nodes features hidden"]:
    """∂f/∂W⁽¹⁾_(:,i) = Σ_m w_i⁽ᵐ⁾ Aᵐ diag(σ'(U_(:,i))) M, U = M W⁽¹⁾; w⁽ᵐ⁾ is w's block for Aᵐ.

    Stands for the W⁽¹⁾ gradient of Appendix A.3 and, with powers (1,) then (0,), of Eq. 7.
    """
    M = hop_features(A, X, powers_1)
    gate = sigma.slope(M @ W_1)
    jacobian = X.new_zeros(len(X), *W_1.shape)
    for power, w_m in zip(powers_2, w.chunk(len(powers_2)), strict=True):
        hop = torch.linalg.matrix_power(A, power)
        jacobian += torch.einsum("js,si,sc->jci", hop, gate * w_m, M)
    return jacobian


# --- two-layer Transformer f = σ(A X V) w ---------------------------------------------------------


def transformer_output_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes hidden"]:
    """∂f_j/∂w = σ(U_j), U = A X V. Stands for the W⁽²⁾ part of Eq. 6."""
    A = softmax_adjacency(X @ W_Q, X @ W_K, scale)
    return sigma.value(A @ X @ V)


def transformer_value_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes width hidden"]:
    """∂f_j/∂V_(:,i) = σ'(U_ji) w_i (A X)_j. Stands for the W_V⁽¹˒¹⁾ part of Eq. 6."""
    AX = softmax_adjacency(X @ W_Q, X @ W_K, scale) @ X
    return AX[:, :, None] * (sigma.slope(AX @ V) * w)[:, None, :]


def transformer_query_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes width key"]:
    """∂f_j/∂W_Q(:,i) = τ ω_ji X_j, ω_ji = N_j K_(:,i) = Cov_{s∼a_j}(K_si, g_js).

    τ is ``scale``, a_j row j of A, g_js the usefulness of source s to node j. Replaces Eq. 8.
    """
    Q, K = X @ W_Q, X @ W_K
    A = softmax_adjacency(Q, K, scale)
    N = softmax_backward(A, usefulness(A, X, V, w, sigma))
    return scale * X[:, :, None] * (N @ K)[:, None, :]


def transformer_key_weights(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes width key"]:
    """∂f_j/∂W_K(:,i) = τ Q_ji N_j X, N_j X = Cov_{s∼a_j}(X_s, g_js). Replaces Eq. 9."""
    Q, K = X @ W_Q, X @ W_K
    A = softmax_adjacency(Q, K, scale)
    N = softmax_backward(A, usefulness(A, X, V, w, sigma))
    return scale * (N @ X)[:, :, None] * Q[:, None, :]


def usefulness(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    V: Float[Tensor, "width hidden"],
    w: Float[Tensor, " hidden"],
    sigma: Activation,
) -> Float[Tensor, "nodes nodes"]:
    """g_js = X_s V (σ'(U_j) ∘ w): how much f_j would gain from more weight on source s."""
    return (sigma.slope(A @ X @ V) * w) @ (X @ V).T


def softmax_backward(
    A: Float[Tensor, "nodes nodes"], dA: Float[Tensor, "nodes nodes"]
) -> Float[Tensor, "nodes nodes"]:
    """Logit gradient dZ = A ∘ (dA − rowsum(A ∘ dA) 1ᵀ): row j is dA_j (diag(a_j) − a_jᵀ a_j)."""
    return A * (dA - (A * dA).sum(-1, keepdim=True))


# --- the multi-hop layer Y = Σᵢ Aⁱ X Wᵢ, any κ ----------------------------------------------------


class LayerGradients(NamedTuple):
    """The gradient of a loss with respect to everything a Fighter layer takes."""

    X: Tensor
    W_Q: Tensor
    W_K: Tensor
    W: Tensor


def horner_sums(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W: Float[Tensor, "kappa width out"],
) -> list[Tensor]:
    """B_{κ−1} = X W_{κ−1}, B_i = X W_i + A B_{i+1}; Y = B₀ without ever forming a power of A."""
    B = [X @ W[-1]]
    for W_i in W[:-1].flip(0):
        B.append(X @ W_i + A @ B[-1])
    return B[::-1]


def backward_hops(
    A: Float[Tensor, "nodes nodes"], G: Float[Tensor, "nodes out"], kappa: int
) -> list[Tensor]:
    """R₀ = G, R_{i+1} = Aᵀ R_i: the upstream gradient sent i hops back along the edges."""
    R = [G]
    for _ in range(kappa - 1):
        R.append(A.T @ R[-1])
    return R


def adjacency_gradient(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W: Float[Tensor, "kappa width out"],
    G: Float[Tensor, "nodes out"],
) -> Float[Tensor, "nodes nodes"]:
    """∂L/∂A = Σ_{i=0}^{κ−2} R_i B_{i+1}ᵀ, with A free (not yet a softmax)."""
    B, R = horner_sums(A, X, W), backward_hops(A, G, len(W))
    dA = torch.zeros_like(A)
    for R_i, B_next in zip(R[:-1], B[1:], strict=True):
        dA = dA + R_i @ B_next.T
    return dA


def softmax_shift(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W: Float[Tensor, "kappa width out"],
    G: Float[Tensor, "nodes out"],
) -> Float[Tensor, " nodes"]:
    """δ = rowsum(A ∘ ∂L/∂A) = Σ_{i=0}^{κ−2} rowsum(R_i ∘ (B_i − X W_i)): no S × S array needed."""
    B, R = horner_sums(A, X, W), backward_hops(A, G, len(W))
    delta = torch.zeros_like(X[:, 0])
    for i in range(len(W) - 1):
        delta = delta + (R[i] * (B[i] - X @ W[i])).sum(-1)
    return delta


def layer_gradients(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    W: Float[Tensor, "kappa width out"],
    G: Float[Tensor, "nodes out"],
    scale: float,
    mask: Bool[Tensor, "nodes nodes"] | None = None,
) -> LayerGradients:
    """Everything from G = ∂L/∂Y (σ' already in it), with dZ = A ∘ (∂L/∂A − δ 1ᵀ):

    ∂L/∂W_i = Xᵀ R_i,  dQ = τ dZ K,  dK = τ dZᵀ Q,  ∂L/∂W_Q = Xᵀ dQ,  ∂L/∂W_K = Xᵀ dK,
    ∂L/∂X = Σ_i R_i W_iᵀ + dQ W_Qᵀ + dK W_Kᵀ.

    The paper gives none of these for κ > 2. A mask changes nothing: where A is 0, dZ is 0.
    """
    Q, K = X @ W_Q, X @ W_K
    A = softmax_adjacency(Q, K, scale, mask)
    R = backward_hops(A, G, len(W))
    dZ = softmax_backward(A, adjacency_gradient(A, X, W, G))
    dQ, dK = scale * dZ @ K, scale * dZ.T @ Q
    dX = sum((R_i @ W_i.T for R_i, W_i in zip(R, W, strict=True)), dQ @ W_Q.T + dK @ W_K.T)
    return LayerGradients(dX, X.T @ dQ, X.T @ dK, torch.stack([X.T @ R_i for R_i in R]))


class LayerJacobians(NamedTuple):
    """Row j: the gradient of f_j, f = σ(Y) w, with respect to the weights of the layer."""

    W_Q: Tensor
    W_K: Tensor
    W: Tensor


def layer_jacobians(
    X: Float[Tensor, "nodes width"],
    W_Q: Float[Tensor, "width key"],
    W_K: Float[Tensor, "width key"],
    W: Float[Tensor, "kappa width out"],
    w: Float[Tensor, " out"],
    sigma: Activation,
    scale: float,
    mask: Bool[Tensor, "nodes nodes"] | None = None,
) -> LayerJacobians:
    """∂f_j/∂W_Q = τ Σ_m Xᵀ N⁽ᵐʲ⁾ K,  ∂f_j/∂W_K = τ Σ_m Xᵀ N⁽ᵐʲ⁾ᵀ Q,  m = 0…κ−2,
    ∂f_j/∂W_i = (Aⁱ X)_jᵀ (σ'(Y_j) ∘ w)ᵀ.

    N⁽ᵐʲ⁾ = diag((Aᵐ)_j) [A ∘ (1 cᵀ − (A c) 1ᵀ)] with c = B_{m+1} (σ'(Y_j) ∘ w).
    Extends Eqs. 8 and 9 to any κ: from κ = 3 on, f_j also moves the attention of the other nodes r,
    in proportion to (Aᵐ)_jr. For κ = 2 only m = 0 and r = j are left.
    """
    Q, K = X @ W_Q, X @ W_K
    A = softmax_adjacency(Q, K, scale, mask)
    B = horner_sums(A, X, W)
    readout = sigma.slope(B[0]) * w
    to_Q = X.new_zeros(len(X), *W_Q.shape)
    to_K = torch.zeros_like(to_Q)
    for m in range(len(W) - 1):
        hop = torch.linalg.matrix_power(A, m)
        for j in range(len(X)):
            c = B[m + 1] @ readout[j]
            N = hop[j, :, None] * A * (c[None, :] - (A @ c)[:, None])
            to_Q[j] += scale * X.T @ N @ K
            to_K[j] += scale * X.T @ N.T @ Q
    hops = torch.stack([torch.linalg.matrix_power(A, i) @ X for i in range(len(W))], dim=1)
    return LayerJacobians(to_Q, to_K, hops[:, :, :, None] * readout[:, None, None, :])
