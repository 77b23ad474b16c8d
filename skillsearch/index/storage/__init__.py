"""An index on disk: generations, their parts, and the documents in them."""
