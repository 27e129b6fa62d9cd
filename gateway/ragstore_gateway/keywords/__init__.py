"""The keyword index: BM25 over the chunks of knowledge bases, in the gateway's database."""
