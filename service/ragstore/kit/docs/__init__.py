"""The page that documents a service's API, without files of other hosts."""
