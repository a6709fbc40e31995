"""The exercises, one module per notebook: each has its cases, its judge and nothing hidden.

In: nothing. Out: a tuple EXERCISES per module, found by :func:`tinysched.lab.exercise.all_exercises`.
"""
