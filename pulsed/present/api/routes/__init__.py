"""The routes of the JSON API: a module per subject, with a function that returns its router."""
