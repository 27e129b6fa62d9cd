"""Repairs the files of a Chroma that was killed during a save, or has a write in its log that it cannot apply.

    chroma-repair FOLDER                 the command; `python -m chroma_repair` is the same
    chroma_repair.index_repair           what it does, as a function
    chroma_repair.unclean_shutdown       for a process that opens Chroma's data: was the previous one killed?
    chroma_repair.data_lock              for a process that opens Chroma's data: one process at a time

It needs neither chromadb nor ragstore, knows the files of Chroma 1.5, and leaves unchanged what it does not recognise.
"""
