"""What was retrieved for which conversation: steps, their contexts, and the audit ledger."""
