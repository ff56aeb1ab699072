"""The conformance kit: a class of tests for each group of promises, which `BackendConformance` puts together.

`base` is what they share. `cases` says which calls are tried, `tolerances` when two values are the same, `layouts` how
operands may lie in memory; `watching` is the backend between a session and the one under test.
"""
