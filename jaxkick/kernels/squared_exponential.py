"""The squared-exponential kernel, by Laguerre filters."""
