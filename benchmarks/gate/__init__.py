"""The gate against the truth: the command line on many shops, verdict by verdict.

`python -m benchmarks.gate` runs what is missing of `build/gate/cases.jsonl` and prints the table.
"""
