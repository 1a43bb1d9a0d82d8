"""An HTTP/1.1 client for GET requests with few allocations. It must not depend on what is requested."""
