"""The HTTP interface: routes by protocol over one hub."""
