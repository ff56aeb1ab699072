"""How it is computed: a graph's fetches and fed nodes become a plan, once; a plan is run many times.

A plan is made by passes, in this order:

    prune     the nodes that the fetches need, no further than fed nodes   Program
              and what branches and loops run of them, as programs inside of it (`bodies`, `places`)
    place     each on a device                                            Program
    cse       equal pure nodes are one                                    Program
    fold      what depends on constants alone is computed now             Program
    lower     values get slots in a frame, ops their kernels, devices their transfers
    segment   what can run without waiting for anything is one segment
    emit      a segment that is run often becomes straight-line Python

Nothing here runs, waits, or knows of threads and loops. Nodes are never copied or changed: passes make
maps beside them. Every pass is linear in nodes and edges, and none recurses but into programs inside of others.
"""
