"""What skills cost in a prompt: their levels measured, and what each host would cut from a listing.

Only `reading` touches the disk; all else counts.
"""
