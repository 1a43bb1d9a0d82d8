"""All HTTP requests of pulsed, on aiohttp, and their credentials. It must not depend on what is requested."""
