"""The filter languages: `where` over metadata, `where_document` over text."""
