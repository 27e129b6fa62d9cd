"""Hides the gateway's advanced-alchemy from a process of the store, which is installed without it.

Litestar 2.25 imports it wherever it is installed. That takes 0.45 s of processor time, of 1.0 s for all imports of a
process that the tests start several hundred times.
"""

raise ImportError("The store is installed without advanced-alchemy")
