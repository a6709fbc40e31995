"""Index arithmetic and algebra: affine normal forms, conditions on them, and rules for values."""

from tinysched.ir.symbolic.affine import Affine, affine_of, simplify_index, to_uop

__all__ = ["Affine", "affine_of", "simplify_index", "to_uop"]
