"""One corpus searched by several workers, each with a part of it. (Trinity §3.1)"""
