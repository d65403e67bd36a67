"""Requests as OpenTelemetry traces, by its conventions for generative AI."""
