"""What searches before tell about the next one: where to begin, and when it may stop.

HedraRAG §4.3 made to keep a promise; a share of the searches is run again exactly to watch it.
"""
