"""How a program is kept from what is not its own: the executors, and what supervises them."""
