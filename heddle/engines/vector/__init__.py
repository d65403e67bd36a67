"""Vector search in steps, over inverted lists or a graph, while the corpus behind changes.

`engine` lives the life of every search, `search_tasks` ends it, `method` says what an index adds.
`build` makes the engine of a lane. The rooms:

`corpus/`   what any index follows: vectors by revision, scopes, words, ingestions
`files/`    what lies in a corpus's index folder
`kernels/`  compiled loops over vectors
`recall/`   recall, measured by running searches again exactly
`ivf/`      inverted lists: sub-stages, early stops, hot lists on a device
`graph/`    a search graph: extends, and vectors beside the graph
`pool/`     two kinds of searches share a lane's slots
`shards/`   one corpus in parts, each searched by a lane
"""
