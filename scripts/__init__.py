"""Scripts that generate or check committed files; `make generate` and `make check` run them."""
