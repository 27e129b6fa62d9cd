"""What generates or checks a committed file: `make generate` and `make check` run these."""
