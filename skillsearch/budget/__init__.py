"""What skills cost in a prompt: each level measured, and what each host would cut from a listing.

Only `reading` touches the disk.
"""
