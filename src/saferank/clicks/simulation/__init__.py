"""Simulated users: counts in closed form of their policies, or a log row by row."""
