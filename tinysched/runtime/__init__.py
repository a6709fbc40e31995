"""Where kernels run: memory, the reference loops, the NumPy programs, and the order of execution.

Read in this order: device, counters, nest, loops, cost; then for the NumPy programs axes, forms, analyze, blocks,
program, reading, summing, writer, vector, numpy; for GPUs pieces, merge, ctext, chelpers, cprint, cuda, cupy; last
linear.
"""
