"""How fast it is, as ratios: `python -m tests.benchmarks` prints one table.

What is compared is timed in one process, in turns, so that a machine that slows down slows both; a row
is the median of the turns' ratios. Foreign load is what other processes took of the machine's cores
meanwhile. Not collected by pytest: a shared machine proves no promise about time.
"""
