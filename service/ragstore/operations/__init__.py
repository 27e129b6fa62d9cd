"""What routes do: write, list, search, stream."""
