"""From a question and a list of knowledge bases to passages, and assistants, which add them to a chat."""
