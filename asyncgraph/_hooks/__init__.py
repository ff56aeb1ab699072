"""The hooks that are there already, one idea a module; `asyncgraph.hooks` has their names.

They are called for runs that overlap: between `before_run` and `after_run` of a run are those of others. So they decide
in `before_run` whether a run is one of those that count, and know it again in `after_run` by what it gave them.
"""
