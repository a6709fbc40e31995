"""Where kernels run: memory, the reference loops, the NumPy programs, and the order of execution.

Read in this order: device, counters, nest, loops, cost; then for the NumPy programs steps, axes, forms, analyze,
blocks, program, reading, summing, writer, vector, numpy; for compiled loops lowered, fastmath, compiled, numba; for GPUs
products, pieces, merge, ctext, chelpers, cprint, cuda, cupy, launch (loaded when a GPU is named, or a kernel shown as
CUDA C); then threads, tuning, linear; last limits and profile.
"""
