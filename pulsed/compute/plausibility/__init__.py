"""Which inputs count as missing because no hardware produces them."""
