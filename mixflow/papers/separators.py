"""Matrices of least norm that separate, ⟨C_j, W⟩ ≥ 1 for all j: in the Frobenius norm, and in the nuclear norm with a proof."""

import numpy as np


def cosine(a, b):
    """Of the angle between two matrices."""
    return float(np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b))


def least_frobenius(C):
    """W (d, n) of least Frobenius norm with ⟨C_j, W⟩ ≥ 1 for all j; C (J, d, n). The point of a cone nearest to one outside."""
    from scipy.optimize import nnls

    rows = np.vstack([C.reshape(len(C), -1).T, np.ones(len(C))])
    rest = rows @ nnls(rows, np.eye(len(rows))[-1])[0] - np.eye(len(rows))[-1]
    return (rest[:-1] / -rest[-1]).reshape(C.shape[1:])


def least_nuclear(C):
    """The same for the nuclear norm, and the relative duality gap, which proves it: W = P Qᵀ with the least |P|² + |Q|²."""
    from scipy.optimize import minimize, nnls
    from threadpoolctl import threadpool_limits

    (U, s, V), (d, n) = np.linalg.svd(least_frobenius(C), full_matrices=False), C.shape[1:]

    def parts(x):
        return x[: d * n].reshape(d, n), x[d * n :].reshape(n, n)

    def slack(x):
        P, Q = parts(x)
        return np.einsum("jab,ab->j", C, P @ Q.T) - 1

    def slopes(x):
        P, Q = parts(x)
        return np.concatenate([(C @ Q).reshape(len(C), -1), (C.transpose(0, 2, 1) @ P).reshape(len(C), -1)], axis=1)

    x = np.concatenate([(U * s**0.5).ravel(), (V.T * s**0.5).ravel()])
    known = {"jac": True, "constraints": {"type": "ineq", "fun": slack, "jac": slopes}, "method": "SLSQP"}
    with threadpool_limits(1):  # hundreds of small matrices
        P, Q = parts(minimize(lambda x: (x @ x / 2, x), x, **known, options={"maxiter": 500, "ftol": 1e-10}).x)
    U, s, V = np.linalg.svd(P @ Q.T, full_matrices=False)
    U, V = U[:, s > 1e-4 * s[0]], V[s > 1e-4 * s[0]]
    rows = np.array(
        [np.concatenate([(c @ V.T).ravel(), (c.T @ U).ravel()]) for c in C]
    ).T  # Σ λ_j C_j = U V on both sides
    dual = nnls(rows, np.concatenate([U.ravel(), V.T.ravel()]))[0]
    return P @ Q.T, 1 - dual.sum() / np.linalg.norm(np.tensordot(dual, C, 1), 2) / s.sum()
