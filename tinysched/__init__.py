"""tinysched: see, teach and debug how a tensor compiler decides what to fuse."""

__version__ = "0.1.0"
