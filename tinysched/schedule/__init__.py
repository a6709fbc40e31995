"""The scheduler: from a tensor graph to kernels in order, each intermediate with its place in memory.

Read in this order: pipeline (the passes and the cache), callify; then the passes: prepare, indexing and rangeify,
simplify and reduce_simplify, kernels, accesses, hazards and order, resolve, memory and planners; policy (the choices that
can be made in another way); last functions, and for many devices layout, multi, allreduce and copies.
"""
