"""Bridges from other packages: their names and units over jaxkick's engine."""
