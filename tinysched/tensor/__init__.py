"""The Tensor front end: lazy, and made of few ops."""
