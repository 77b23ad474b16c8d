"""What is loaded, for whom, since when: kept in the state of a host, as texts by key."""
