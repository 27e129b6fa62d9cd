"""Safe fetching: the only way from the gateway to an address that a caller chose.

Fetcher.fetch             sends one request and returns the whole response, see `fetcher`
Fetcher.robots            the rules of a site's robots.txt
FetchRules                limits, ports and hosts, see `rules`
AddressRules              which addresses a connection may be made to, see `addresses`
"""
