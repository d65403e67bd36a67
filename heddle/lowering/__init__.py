"""From template components to primitives, one file a component. (Teola §4.1, Algorithm 1)"""
