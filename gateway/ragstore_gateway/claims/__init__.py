"""Work that belongs to one process at a time: leases, claims, and runs that are executed in the background."""
