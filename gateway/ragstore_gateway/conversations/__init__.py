"""Records of retrieval: the steps of conversations, their contexts, and the audit ledger."""
