"""Texts as a terminal and a log may show them."""
