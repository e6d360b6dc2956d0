"""Scorers: what gives a document its score. Networks and trees, as values that save and load."""
