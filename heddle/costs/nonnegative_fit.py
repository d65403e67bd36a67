"""Least squares with coefficients that can't be negative, weighted by 1/t, blind to outliers."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

HUBER_K = 1.345  # 95 % efficient under normal noise
MAD_TO_SIGMA = 1.4826
ITERATIONS_MAX = 12
TOLERANCE = 1e-5
GAIN_MIN = 1e-9  # a larger support must be better by this share of the targets' square
INDEPENDENT_MIN = 1e-7  # determinant of the features' correlations


def fit_nonnegative(
    features: NDArray[np.float64], seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return coefficients >= 0 that make features · coefficients near the seconds.

    Errors count relative to the time: else long batches decide alone and the intercept of
    short ones is lost. Residuals beyond 1.345 robust deviations count linearly (Huber).

    Shapes: features [n, f], f small; seconds [n], positive; result [f].
    """
    rows = features / seconds[:, None]
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    rows = rows / scale
    weights = np.ones(len(rows))
    coefficients = _nonnegative(rows, weights)
    for _ in range(ITERATIONS_MAX):
        residuals = np.abs(1.0 - rows @ coefficients)
        limit = HUBER_K * max(MAD_TO_SIGMA * float(np.median(residuals)), TOLERANCE)
        weights = np.minimum(1.0, limit / np.maximum(residuals, limit))
        before, coefficients = coefficients, _nonnegative(rows, weights)
        if np.abs(coefficients - before).max() <= TOLERANCE * np.abs(coefficients).max():
            break
    result: NDArray[np.float64] = coefficients / scale
    return result


def _nonnegative(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minimise |W(1 - rows · c)|² over c >= 0.

    The minimum is the plain least-squares solution over some of the features, so with a few of
    them all choices are tried; of two that are equally good the smaller one is taken.
    """
    gram = (rows * weights[:, None]).T @ rows
    moment = rows.T @ weights
    total = float(weights.sum())
    norms = np.sqrt(np.maximum(gram.diagonal(), np.finfo(float).tiny))
    correlations = gram / norms[:, None] / norms
    best, best_loss = np.zeros(rows.shape[1]), total
    for size in range(1, rows.shape[1] + 1):
        for chosen in combinations(range(rows.shape[1]), size):
            support = np.array(chosen)
            chosen_only = np.ix_(support, support)
            if np.linalg.det(correlations[chosen_only]) < INDEPENDENT_MIN:
                continue  # one of them says nothing that the others don't
            solved = np.linalg.solve(gram[chosen_only], moment[support])
            if solved.min() < 0:
                continue
            loss = total - float(moment[support] @ solved)
            if loss < best_loss - GAIN_MIN * total:
                best_loss = loss
                best = np.zeros(rows.shape[1])
                best[support] = solved
    return best
