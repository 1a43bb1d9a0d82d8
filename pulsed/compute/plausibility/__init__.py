"""Inputs that count as missing because no hardware produces them."""
