"""Interfaces of other packages on top of jaxkick."""
