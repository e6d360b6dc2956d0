"""Plackett-Luce by other routes: all rankings, closed forms for two ranks, differences."""

import itertools

import numpy as np


def all_rankings(documents):
    return np.array(list(itertools.permutations(range(documents))), dtype=np.int64).reshape(
        -1, documents
    )


def ranking_probabilities(scores, rankings):
    """Probability of each full ranking, from the definition."""
    rates = np.exp(scores - scores.max())[rankings]
    left = np.cumsum(rates[:, ::-1], axis=1)[:, ::-1]
    return np.prod(rates / left, axis=1)


def enumerated_ranks(scores, k):
    """Probability of each document at each rank, over all rankings."""
    rankings = all_rankings(scores.size)
    chance = ranking_probabilities(scores, rankings)
    table = np.zeros((scores.size, k))
    for rank in range(min(k, scores.size)):
        table[:, rank] = np.bincount(rankings[:, rank], chance, minlength=scores.size)
    return table


def enumerated_exposure(scores, weights):
    return enumerated_ranks(np.asarray(scores), len(weights)) @ np.asarray(weights)


def two_ranks(scores, weights):
    """Exposure at K = 2: softmax, and the sum over who came first; exact for any D."""
    order = np.argsort(-scores)
    rates = np.exp(scores[order] - scores.max())
    others = np.array([np.delete(rates, i).sum() for i in range(min(rates.size, 5))])
    if rates.size > others.size:  # the rest are never most of the sum: subtracting is safe
        others = np.concatenate([others, rates.sum() - rates[others.size :]])
    first = rates / rates.sum()
    odds = first / others
    second = rates * np.array([np.delete(odds, i).sum() for i in range(rates.size)])
    omega = np.empty(rates.size)
    omega[order] = weights[0] * first + weights[1] * second
    return omega


def central_differences(function, at, step=1e-4):
    """Gradient of a scalar function by differences of fourth order."""
    gradient = np.zeros(at.size)
    for index in range(at.size):
        move = np.zeros(at.size)
        move[index] = step
        near = function(at + move) - function(at - move)
        far = function(at + 2 * move) - function(at - 2 * move)
        gradient[index] = (8 * near - far) / (12 * step)
    return gradient
