"""Hot clusters: the lists that searches ask for most, kept on a device. (HedraRAG §4.4)"""
