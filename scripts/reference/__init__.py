"""The reference pages, made from the code: passes with their rules, reasons with their sentences, modules.

In: the package as it is. Out: Markdown (:func:`passes.page`, :func:`reasons.page`, :func:`modules.pages`), which Sphinx
turns into the site. Nothing here is written by hand twice: what a page says of a rule is the rule's own docstring.
"""
