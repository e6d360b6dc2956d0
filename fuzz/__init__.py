"""Mutation fuzzing of everything that saferank reads: `make fuzz`, or `python -m fuzz --help`.

A few good inputs of each kind are mutated without end: bytes, words and numbers of text, values of
JSON, columns of tables. Each input is read by a worker process; the parent watches. A good end is
that the input is accepted, with numbers that hold, or refused with one short sentence. Findings are
a crash of native code, a hang, too much memory, any other exception, and numbers that are wrong.
Inputs that end in a new way are mutated further.
"""
