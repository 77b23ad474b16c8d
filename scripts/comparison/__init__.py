"""What a comparison with other packages is made of."""
