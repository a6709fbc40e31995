"""The graph: one node type, named rewrite rules, index arithmetic, and what watches them.

Read in this order: ops, uop, derive, pattern, rewrite, symbolic, observe, once, spec, text.
"""
