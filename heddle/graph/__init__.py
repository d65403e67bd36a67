"""Primitive graphs: frozen values, checked by verify(), drawn by render()."""
