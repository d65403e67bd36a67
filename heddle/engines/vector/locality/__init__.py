"""What the search before in a request tells about the next one. (HedraRAG §4.3)

Orders of clusters and a calibrated stop; `heddle bench locality` measures them, no engine uses them
yet.
"""
