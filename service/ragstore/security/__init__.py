"""Who may do what: keys, roles, limits, the audit trail, and the headers of a hardened answer."""
