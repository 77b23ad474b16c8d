"""Readers: cross-encoders that read a request and a skill together."""
