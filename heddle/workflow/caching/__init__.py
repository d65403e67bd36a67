"""Workflows whose answers are kept. (ADR 44)"""
