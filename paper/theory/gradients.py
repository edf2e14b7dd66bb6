"""Exact gradients in closed form: what the paper's Section 4.2 and its appendix set out to give.

A gradient of the node-wise output f (S numbers) is its Jacobian: row j is the gradient of f_j, so
the weight of a loss Σ_j c_j f_j is moved by Σ_j c_j · row j. ∘ is the elementwise product.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fighter._typing import Float

from .models import Activation, Gcn, Layer, Transformer, hop_features

# --- two-layer multi-hop GCN ---------------------------------------------------------------------


def gcn_output_weights(net: Gcn) -> Float[Tensor, "nodes outputs"]:
    """Return ∂f/∂w.

    ∂f/∂w = A^[κ₂] blkdiag(σ(M W⁽¹⁾); κ₂), M = A^[κ₁] blkdiag(X; κ₁).

    This is the W⁽²⁾ gradient of Appendix A.3 and, with powers (1,) then (0,), of Eq. 7.
    """
    M = hop_features(net.A, net.X, net.powers_1)
    return hop_features(net.A, net.sigma.value(M @ net.W_1), net.powers_2)


def gcn_hidden_weights(net: Gcn) -> Float[Tensor, "nodes features hidden"]:
    """Return ∂f/∂W⁽¹⁾.

    ∂f/∂W⁽¹⁾_(:,i) = Σ_m w_i⁽ᵐ⁾ Aᵐ diag(σ'(U_(:,i))) M, U = M W⁽¹⁾; w⁽ᵐ⁾ is w's block for Aᵐ.

    This is the W⁽¹⁾ gradient of Appendix A.3 and, with powers (1,) then (0,), of Eq. 7.
    """
    M = hop_features(net.A, net.X, net.powers_1)
    gate = net.sigma.slope(M @ net.W_1)
    jacobian = net.X.new_zeros(len(net.X), *net.W_1.shape)
    for power, w_m in zip(net.powers_2, net.w.chunk(len(net.powers_2)), strict=True):
        hop = torch.linalg.matrix_power(net.A, power)
        jacobian += torch.einsum("js,si,sc->jci", hop, gate * w_m, M)
    return jacobian


# --- two-layer Transformer f = σ(A X V) w ---------------------------------------------------------


def transformer_output_weights(net: Transformer) -> Float[Tensor, "nodes hidden"]:
    """Return ∂f_j/∂w = σ(U_j), U = A X V: the W⁽²⁾ part of Eq. 6."""
    return net.sigma.value(net.attention @ net.X @ net.V)


def transformer_value_weights(net: Transformer) -> Float[Tensor, "nodes width hidden"]:
    """Return ∂f_j/∂V_(:,i) = σ'(U_ji) w_i (A X)_j: the W_V⁽¹˒¹⁾ part of Eq. 6."""
    AX = net.attention @ net.X
    return AX[:, :, None] * (net.sigma.slope(AX @ net.V) * net.w)[:, None, :]


def transformer_query_weights(net: Transformer) -> Float[Tensor, "nodes width key"]:
    """Return ∂f_j/∂W_Q(:,i) = τ ω_ji X_j, ω_ji = N_j K_(:,i) = Cov_{s∼a_j}(K_si, g_js).

    τ is ``scale``, a_j row j of A, g_js the usefulness of source s to node j, and N the gradient of
    the logits. Replaces Eq. 8.
    """
    K = net.X @ net.W_K
    N = softmax_backward(net.attention, usefulness(net))
    return net.scale * net.X[:, :, None] * (N @ K)[:, None, :]


def transformer_key_weights(net: Transformer) -> Float[Tensor, "nodes width key"]:
    """Return ∂f_j/∂W_K(:,i) = τ Q_ji N_j X, N_j X = Cov_{s∼a_j}(X_s, g_js). Replaces Eq. 9."""
    Q = net.X @ net.W_Q
    N = softmax_backward(net.attention, usefulness(net))
    return net.scale * (N @ net.X)[:, :, None] * Q[:, None, :]


def usefulness(net: Transformer) -> Float[Tensor, "nodes nodes"]:
    """Return g_js = X_s V (σ'(U_j) ∘ w): how much f_j would gain from more weight on source s."""
    U = net.attention @ net.X @ net.V
    return (net.sigma.slope(U) * net.w) @ (net.X @ net.V).T


def softmax_backward(
    A: Float[Tensor, "nodes nodes"], dA: Float[Tensor, "nodes nodes"]
) -> Float[Tensor, "nodes nodes"]:
    """Return the gradient of the logits, dZ = A ∘ (dA − rowsum(A ∘ dA) 1ᵀ).

    Row j is dA_j (diag(a_j) − a_jᵀ a_j).
    """
    return A * (dA - (A * dA).sum(-1, keepdim=True))


# --- the multi-hop layer Y = Σᵢ Aⁱ X Wᵢ, any κ ----------------------------------------------------


def horner_sums(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W: Float[Tensor, "kappa width out"],
) -> list[Tensor]:
    """Return B₀ … B_{κ−1}, of which B₀ = Y, without ever forming a power of A.

    B_{κ−1} = X W_{κ−1}, B_i = X W_i + A B_{i+1}.
    """
    B = [X @ W[-1]]
    for W_i in W[:-1].flip(0):
        B.append(X @ W_i + A @ B[-1])
    return B[::-1]


def backward_hops(
    A: Float[Tensor, "nodes nodes"], G: Float[Tensor, "nodes out"], kappa: int
) -> list[Tensor]:
    """Return R₀ = G, R_{i+1} = Aᵀ R_i: the upstream gradient sent i hops back along the edges."""
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
    """Return ∂L/∂A = Σ_{i=0}^{κ−2} R_i B_{i+1}ᵀ, with A free (not yet a softmax)."""
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
    """Return δ = rowsum(A ∘ ∂L/∂A), for which no S × S array is needed.

    δ = Σ_{i=0}^{κ−2} rowsum(R_i ∘ (B_i − X W_i)).
    """
    B, R = horner_sums(A, X, W), backward_hops(A, G, len(W))
    delta = torch.zeros_like(X[:, 0])
    for i in range(len(W) - 1):
        delta = delta + (R[i] * (B[i] - X @ W[i])).sum(-1)
    return delta


class LayerGradients(NamedTuple):
    """The gradient of a loss with respect to everything a Fighter layer takes."""

    X: Tensor
    W_Q: Tensor
    W_K: Tensor
    W: Tensor


def layer_gradients(at: Layer, G: Float[Tensor, "nodes out"]) -> LayerGradients:
    """Return every gradient of a layer from G = ∂L/∂Y, which already contains σ'.

    With dZ = A ∘ (∂L/∂A − δ 1ᵀ):

    ∂L/∂W_i = Xᵀ R_i,  dQ = τ dZ K,  dK = τ dZᵀ Q,  ∂L/∂W_Q = Xᵀ dQ,  ∂L/∂W_K = Xᵀ dK,
    ∂L/∂X = Σ_i R_i W_iᵀ + dQ W_Qᵀ + dK W_Kᵀ.

    The paper gives none of these for κ > 2. A mask changes nothing: where A is 0, dZ is 0.
    """
    X, W_Q, W_K, W, scale, _ = at
    Q, K, A = X @ W_Q, X @ W_K, at.attention
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


def layer_jacobians(at: Layer, w: Float[Tensor, " out"], sigma: Activation) -> LayerJacobians:
    """Return the gradients of every f_j, f = σ(Y) w, for any κ.

    ∂f_j/∂W_Q = τ Σ_m Xᵀ N⁽ᵐʲ⁾ K,  ∂f_j/∂W_K = τ Σ_m Xᵀ N⁽ᵐʲ⁾ᵀ Q,  m = 0…κ−2,
    ∂f_j/∂W_i = (Aⁱ X)_jᵀ (σ'(Y_j) ∘ w)ᵀ.

    N⁽ᵐʲ⁾ = diag((Aᵐ)_j) [A ∘ (1 cᵀ − (A c) 1ᵀ)] with c = B_{m+1} (σ'(Y_j) ∘ w).
    Extends Eqs. 8 and 9: from κ = 3 on, f_j also moves the attention of the other nodes r, in
    proportion to (Aᵐ)_jr. For κ = 2 only m = 0 and r = j are left.
    """
    X, W_Q, W_K, W, scale, _ = at
    Q, K, A = X @ W_Q, X @ W_K, at.attention
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
