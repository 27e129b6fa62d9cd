"""The web page in Chromium, against real services over real sockets: `make page-test`."""
