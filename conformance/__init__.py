"""Conformance kit of the wire in PROTOCOL.md, for clients and servers in any language.

Uses only the standard library, and nothing of this repository outside its folder.
"""
