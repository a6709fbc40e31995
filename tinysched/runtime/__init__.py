"""Where kernels run: memory, the reference loops, the NumPy programs, and the order of execution.

Read in this order: device, counters, nest, loops, cost, analyze, numpy, linear.
"""
