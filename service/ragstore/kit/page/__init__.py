"""The web page of a service at `/ui/`, without files of other hosts."""
