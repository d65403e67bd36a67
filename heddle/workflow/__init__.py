"""What a user writes: RAGraph, its nodes, and the ready-made workflows. Data only."""
