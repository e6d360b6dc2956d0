"""Evaluation: policies by their scores, off-policy estimates with intervals, and the truth."""
