"""Large bodies: decoded without blocking the event loop, in little more memory than their size.

A body above 128 KiB is split into documents and decoded here; nothing else of the service depends on its size. The page
on large bodies has the figures of each module.
"""
