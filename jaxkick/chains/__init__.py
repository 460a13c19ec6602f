"""Chains of entries, and the filter, smoother and interpolation that run along them."""
