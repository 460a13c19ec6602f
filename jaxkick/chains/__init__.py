"""Chains of entries, with Kalman filter, smoother, interpolation and sampling."""
