"""Dense retrieval: channels, their vectors, and the nearest documents."""
