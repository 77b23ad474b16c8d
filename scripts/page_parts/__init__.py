"""What the generated parts of pages say, by where it comes from."""
