"""Interfaces of other packages, implemented by jaxkick."""
