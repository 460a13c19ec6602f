"""Several devices, several processes, and accelerators that are not here."""
