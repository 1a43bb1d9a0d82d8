"""The configuration: how a key is declared, all keys together, and how they are loaded, merged and checked."""
