"""Upstreams: configuration of providers, target selection and HTTP calls."""
