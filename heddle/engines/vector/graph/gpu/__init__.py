"""Graph search on a GPU: fixed shapes, many searches a step. (Trinity §3.2)"""
