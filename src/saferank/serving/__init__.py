"""Serving what was certified."""
