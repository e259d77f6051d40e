"""Who makes a request: principals, and the credentials that show them."""
