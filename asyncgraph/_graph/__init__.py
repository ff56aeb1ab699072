"""What is computed: graphs, nodes, specs, scopes and the rules of ops. Knows no execution.

A node is one application of an op to nodes and Python numbers. A graph is a list of nodes in which
inputs stand before what uses them, so that a graph cannot have a cycle and needs no sorting. What an
op is stands in tables (`rules`), never in branches.
"""
