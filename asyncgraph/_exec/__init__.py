"""How a plan is run: a scheduler without threads or loops, and what pumps it.

scheduler   what may start, what failed, what is left: one run's state, and nothing else
run         drives a scheduler on a loop and threads; coroutines: what it awaits
inline      a run that needs none of that; bodies: what branches and loops run, where that needs a scheduler
calls       every call of user code
turn        how long kernels may hold the loop
workers     threads that take work; mailbox: how they reach the loop
results     values leave a run
"""
