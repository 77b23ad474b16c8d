"""Lexical retrieval: postings, BM25, and the best documents by it."""
