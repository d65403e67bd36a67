"""Graph search over one immutable set of vectors, many searches at once. (Trinity §3.2)"""
