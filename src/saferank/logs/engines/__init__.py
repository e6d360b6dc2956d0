"""Engines that run Ibis expressions: DuckDB in this process, Spark, and any other by its URL."""
