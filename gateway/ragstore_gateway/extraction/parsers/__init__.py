"""One module for each kind of document. They run only in a process that extracts texts."""
