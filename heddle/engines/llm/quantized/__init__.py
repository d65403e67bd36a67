"""Weights of 8 bits: their grid, their layout, and the layers that multiply with them. (ADR 47)"""
