"""Confirmations as text, JSON and HTML."""
