"""Manuals that an installation carries: the documentation of Python and of installed packages.

`library` names the pages and makes them, `reference_page` renders a module, `help_page` asks a
command. `heddle eval manuals` indexes them and asks about them.
"""
