"""Layer 2, Translate: from a source's own words to one vocabulary in base units.

A new DCGM field name stops here.
"""
