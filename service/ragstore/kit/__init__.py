"""What any service of ours needs. Knows nothing of collections or Chroma, and imports nothing else of ragstore."""
