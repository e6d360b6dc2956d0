"""Tiny worlds where every ranking and every click can be enumerated."""

import itertools
import math

import numpy as np


def rankings(scores, k):
    """Every top-k ranking with its Plackett-Luce probability, by the definition."""
    documents = range(len(scores))
    for ranking in itertools.permutations(documents, min(k, len(scores))):
        rest, probability = set(documents), 1.0
        for document in ranking:
            rates = {d: math.exp(scores[d]) for d in rest}
            probability *= rates[document] / sum(rates.values())
            rest.remove(document)
        yield ranking, probability


def sessions(scores, relevance, alpha, beta):
    """Every (impressions, clicks) of one session with its probability."""
    k = len(alpha)
    for ranking, shown in rankings(scores, k):
        for clicks in itertools.product((0, 1), repeat=len(ranking)):
            probability = shown
            n = np.zeros((len(scores), k), dtype=np.int64)
            c = np.zeros_like(n)
            for rank, (document, click) in enumerate(zip(ranking, clicks, strict=True)):
                p = alpha[rank] * relevance[document] + beta[rank]
                probability *= p if click else 1 - p
                n[document, rank], c[document, rank] = 1, click
            if probability > 0:
                yield n, c, probability


def exposure(scores, weights):
    """Expected rank weight of each document, by enumeration."""
    total = np.zeros(len(scores))
    for ranking, probability in rankings(scores, len(weights)):
        for rank, document in enumerate(ranking):
            total[document] += probability * weights[rank]
    return total
