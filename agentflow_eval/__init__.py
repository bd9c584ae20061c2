"""Declarative evaluation of AI agents."""
